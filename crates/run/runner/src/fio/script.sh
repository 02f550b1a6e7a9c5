# Carries out the commands of a node where fio does the I/O; they are read from standard input.
umask 077
d=$(mktemp -d "${TMPDIR:-/tmp}/iodyno-fio.XXXXXX") || exit 1
place=
finish() {
	[ ! -f "$d/pid" ] || kill -9 "$(cat "$d/pid")" 2>/dev/null
	exec 5>&-
	wait
	[ -z "$place" ] || rm -rf "$place"
	rm -rf "$d"
}
trap finish EXIT
trap "exit 1" HUP INT TERM PIPE
exec 6>&1
say() { printf "%s\n" "$*"; }
while IFS= read -r line; do
	word=${line#* }
	case $line in
	"ping "*)
		say "pong $word"
		echo >"$d/alive" ;;
	host) say "host $(uname -n) $(uname -r) $(uname -s)" ;;
	version) say "version $(fio --version 2>&1 | head -n 1)" ;;
	"look "*)
		kind=none
		[ -e "$word" ] && kind=other
		[ -f "$word" ] && kind=file
		[ -b "$word" ] && kind=device
		[ -c "$word" ] && kind=device
		[ -d "$word" ] && kind=folder
		say "kind $kind" ;;
	"place "*)
		place=$word/iodyno-fio.$$
		if said=$(mkdir "$place" 2>&1); then say "placed $place"; else place=; say "not placed: $said"; fi ;;
	jobs)
		while IFS= read -r line && [ "$line" != . ]; do printf "%s\n" "$line"; done >"$d/jobs.fio"
		printf "%s\n" "echo gate \$1 >&6" "[ -p go ] && cat go" "echo passed \$1 >&6" >"$d/gate" ;;
	start | "start "*)
		mkfifo "$d/go"
		exec 5<>"$d/go"
		# The writing end of the pipe is only this shell's.
		(
			exec 5>&- </dev/null
			cd "$d" || exit 1
			fio ${line#start} --eta=never --output-format=json+ --output=out jobs.fio >said 2>&1 &
			echo $! >pid.new
			mv pid.new pid
			fio=$!
			# Pings that stop mean a lost connection, of which the server of ssh may not know.
			(
				missed=0
				while [ $missed -lt 3 ]; do
					sleep 5
					[ -f pid ] || exit
					missed=$((missed + 1))
					mv alive was && missed=0
				done
				kill -9 $fio
				kill $$
			) >/dev/null 2>&1 6>&- &
			wait $fio
			code=$?
			rm -f pid
			say "exit $code"
		) & ;;
	go)
		mv "$d/go" "$d/gone"
		exec 5>&- ;;
	interrupt) [ ! -f "$d/pid" ] || kill -INT "$(cat "$d/pid")" ;;
	said)
		cat "$d/said" "$d/out" 2>/dev/null | grep -v prerun | sed -n -e "/^ *{/q" -e "s/^/said /p" | tail -n 6
		say "said." ;;
	results)
		touch "$d/out"
		say "size $(wc -c <"$d/out")"
		cat "$d/out" ;;
	esac
done
