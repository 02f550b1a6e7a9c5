//! The options of layers, seen on the host during a trial.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::case::{Case, Language, Look, Through, case};
use crate::experiments::{
    arguments, during, keys, no_ext4, no_loop, no_root, stand_in, starting, without,
};

pub(crate) static LANGUAGE: Language = Language {
    name: "layers",
    options: || keys(true),
    topics: &[
        FILES,
        FILE_SYSTEMS,
        LIMITS,
        MAPPED,
        SERVED,
        ZFS,
        GUESTS,
        IN_GUESTS,
    ],
    arguments,
};

/// A workload that reads until it is stopped, on this target.
macro_rules! on { ($target:literal $($more:literal)*) => { concat!("workload.a.fio = {rw='read',bs='4k',size='16k',rate_iops=100,time_based=1,runtime='1h'}\nconfiguration.c.target = '", $target, "'\n", $($more),*) }; }
/// A script that prints a field of the mount of the job's file.
macro_rules! mount {
    ($field:literal, $more:literal) => {
        concat!("findmnt -no ", $field, " -T \"$AT\" ", $more)
    };
}
/// A script with the name of the device below the file system of the job's file, or of the job's device.
macro_rules! device { ($script:literal) => { concat!("D=$(findmnt -no SOURCE -T \"$AT\"); case $AT in /dev/*) D=$(realpath $AT);; esac; D=${D#/dev/}\n", $script) }; }
/// A script that prints the matching parts of the command lines of servers that name a file or folder of this one.
macro_rules! servers { ($script:literal) => { concat!("for F in $(grep -lsF \"$PWD/iodyno-\" /proc/[0-9]*/cmdline); do L=$(tr '\\0' ' ' < $F) && echo \"$L\" | grep -qE '(^|/)(iodyno serve|nbdkit) ' && echo \"${F%/cmdline} $L\"; done 2>/dev/null | sort > ../servers\n", $script) }; }
/// A script that sets `Q` to the command lines of a program that contain a text.
macro_rules! lines {
    ($text:literal, $program:literal) => {
        concat!(
            "Q=$(for F in $(grep -lsF \"",
            $text,
            "\" /proc/[0-9]*/cmdline); do tr '\\0' ' ' < $F | grep -E '^([^ ]*/)?",
            $program,
            " '; done 2>/dev/null)\n"
        )
    };
}
/// Matches of a pattern in the command lines of a program that contain the target's token.
macro_rules! command {
    ($seen:literal, $program:literal, $pattern:literal) => {
        starting(
            $seen,
            concat!(
                lines!("$TOKEN", $program),
                "[ -z \"$Q\" ] || echo \"$Q\" | grep -oE -- '",
                $pattern,
                "' | sort -u | grep . || echo none"
            ),
        )
    };
}

#[rustfmt::skip]
const FILES: &[Case] = &[
    case("device.paths", during("losetup", "basename \"$(losetup -nO BACK-FILE \"$AT\")\""), on!("device"), &[("configuration.c.device.paths = ['d0']", "0.img"), ("configuration.c.device.paths = ['d1']", "1.img")]).with_devices(2).unless(no_loop),
    case("directory.path", during("files", "ls -d iodyno-* sub/iodyno-* 2>/dev/null | cut -d- -f1"), on!("directory"), &[("configuration.c.directory.path = '.'", "iodyno"), ("configuration.c.directory.path = 'sub'", "sub/iodyno")]).after(sub),
    case("file.size", during("files", "stat -c %s iodyno-*/disk0.img"), on!("file on ."), &[("configuration.c.file.size = '1MiB'", "1048576"), ("configuration.c.file.size = '2MiB'", "2097152")]),
    case("file.count", during("files", "ls iodyno-*"), on!("zfs on file on ." "configuration.c.file.size = '64MiB'"), &[("", "disk0.img"), ("configuration.c.file.count = 2", "disk0.img disk1.img")]).unless(no_zfs),
    case("file.allocate", during("files", "[ $(stat -c %b iodyno-*/disk0.img) -ge 8192 ] && echo allocated || echo sparse"), on!("file on ." "configuration.c.file.size = '4MiB'"), &[("", "allocated"), ("configuration.c.file.allocate = false", "sparse")]),
    case("loop.direct", during("losetup", "losetup -nO DIO /dev/$LOOP"), on!("loop on file on ." "configuration.c.file.size = '1MiB'"), &[("", "1"), ("configuration.c.loop.direct = false", "0")]).unless(no_loop),
    case("loop.sector", during("/sys/block", "cat /sys/block/$LOOP/queue/logical_block_size"), on!("loop on file on ." "configuration.c.file.size = '1MiB'"), &[("", "512"), ("configuration.c.loop.sector = 4096", "4096")]).unless(no_loop),
    case("zram.size", during("/sys/block", device!("cat /sys/block/$D/disksize")), on!("ext4 on zram"), &[("configuration.c.zram.size = '32MiB'", "33554432"), ("configuration.c.zram.size = '16MiB'", "16777216")]).unless(no_zram),
    case("zram.count", during("btrfs", "btrfs filesystem show \"$(findmnt -no TARGET -T \"$AT\")\" | grep -c devid"), on!("btrfs on zram" "configuration.c.zram.size = '128MiB'"), &[("configuration.c.zram.count = 1", "1"), ("configuration.c.zram.count = 2", "2")]).unless(no_btrfs),
    case("zram.algorithm", during("/sys/block", device!("grep -o '\\[.*\\]' /sys/block/$D/comp_algorithm")), on!("ext4 on zram" "configuration.c.zram.size = '16MiB'"), &[("configuration.c.zram.algorithm = 'lzo'", "[lzo]"), ("configuration.c.zram.algorithm = 'lz4'", "[lz4]")]).unless(no_zram),
    case("tmpfs.size", during("mounts", mount!("OPTIONS", "| grep -o 'size=[0-9]*k'")), on!("tmpfs"), &[("configuration.c.tmpfs.size = '8MiB'", "size=8192k"), ("configuration.c.tmpfs.size = '4MiB'", "size=4096k")]).unless(no_root),
];

#[rustfmt::skip]
const FILE_SYSTEMS: &[Case] = &[
    case("ext4.mkfs", during("blkid", device!("L=$(blkid -po value -s LABEL /dev/$D); echo ${L:-none}")), on!("ext4 on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("", "none"), ("configuration.c.ext4.mkfs = ['-L', 'mine']", "mine")]).unless(no_ext4),
    case("ext4.mount", during("mounts", mount!("OPTIONS", "| tr , '\\n' | grep atime")), on!("ext4 on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("", "relatime"), ("configuration.c.ext4.mount = 'noatime'", "noatime")]).unless(no_ext4),
    case("xfs.mkfs", during("blkid", device!("L=$(blkid -po value -s LABEL /dev/$D); echo ${L:-none}")), on!("xfs on zram" "configuration.c.zram.size = '512MiB'"), &[("", "none"), ("configuration.c.xfs.mkfs = ['-L', 'mine']", "mine")]).unless(no_xfs),
    case("xfs.mount", during("mounts", mount!("OPTIONS", "| tr , '\\n' | grep atime")), on!("xfs on zram" "configuration.c.zram.size = '512MiB'"), &[("", "relatime"), ("configuration.c.xfs.mount = 'noatime'", "noatime")]).unless(no_xfs),
    case("btrfs.mkfs", during("blkid", device!("L=$(blkid -po value -s LABEL /dev/${D%%[*}); echo ${L:-none}")), on!("btrfs on zram" "configuration.c.zram.size = '128MiB'"), &[("", "none"), ("configuration.c.btrfs.mkfs = ['-L', 'mine']", "mine")]).unless(no_btrfs),
    case("btrfs.mount", during("mounts", mount!("OPTIONS", "| tr , '\\n' | grep -m1 compress || echo none")), on!("btrfs on zram" "configuration.c.zram.size = '128MiB'"), &[("", "none"), ("configuration.c.btrfs.mount = 'compress=zlib'", "compress=zlib:3")]).unless(no_btrfs),
    case("overlay.mount", during("mounts", mount!("OPTIONS", "| grep -o metacopy=on || echo none")), on!("overlay on ."), &[("", "none"), ("configuration.c.overlay.mount = 'metacopy=on'", "metacopy=on")]).unless(no_root),
];

/// A script that prints a limit of the loop device.
macro_rules! limit { ($one:literal, $two:literal) => { concat!("N=$(cat /sys/block/$LOOP/dev)\nfor F in $(find /sys/fs/cgroup -name 'blkio.throttle.", $one, "_device'); do sed -n \"s/^$N //p\" $F; done | head -1\nfor F in $(find /sys/fs/cgroup -name io.max); do grep \"^$N \" $F | grep -o '", $two, "=[0-9]*' | cut -d= -f2; done | head -1") }; }

#[rustfmt::skip]
const LIMITS: &[Case] = &[
    case("throttle.read_iops", during("control group", limit!("read_iops", "riops")), on!("throttle on loop on file on ." "configuration.c.file.size = '1MiB'"), &[("configuration.c.throttle.read_iops = 1000", "1000"), ("configuration.c.throttle.read_iops = 2000", "2000")]).unless(no_limits),
    case("throttle.write_iops", during("control group", limit!("write_iops", "wiops")), on!("throttle on loop on file on ." "configuration.c.file.size = '1MiB'"), &[("configuration.c.throttle.write_iops = 1000", "1000"), ("configuration.c.throttle.write_iops = 2000", "2000")]).unless(no_limits),
    case("throttle.read_bandwidth", during("control group", limit!("read_bps", "rbps")), on!("throttle on loop on file on ." "configuration.c.file.size = '1MiB'"), &[("configuration.c.throttle.read_bandwidth = '8MiB'", "8388608"), ("configuration.c.throttle.read_bandwidth = '16MiB'", "16777216")]).unless(no_limits),
    case("throttle.write_bandwidth", during("control group", limit!("write_bps", "wbps")), on!("throttle on loop on file on ." "configuration.c.file.size = '1MiB'"), &[("configuration.c.throttle.write_bandwidth = '8MiB'", "8388608"), ("configuration.c.throttle.write_bandwidth = '16MiB'", "16777216")]).unless(no_limits),
    case("delay.read", during("servers", servers!("grep -o 'rdelay=[^ ]*\\|delay-read=[^ ]*' ../servers || echo none")), on!("delay on file on ." "configuration.c.file.size = '1MiB'"), &[("configuration.c.delay.write = '2ms'", "rdelay=0ms"), ("configuration.c.delay.read = '3ms'", "rdelay=3ms")]).unless(no_delay),
    case("delay.write", during("servers", servers!("grep -o 'wdelay=[^ ]*\\|delay-write=[^ ]*' ../servers || echo none")), on!("delay on file on ." "configuration.c.file.size = '1MiB'"), &[("configuration.c.delay.read = '2ms'", "wdelay=0ms"), ("configuration.c.delay.write = '3ms'", "wdelay=3ms")]).unless(no_delay),
    case("delay.disk", during("servers", servers!("grep -c flash ../servers")), on!("delay on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.delay.read = '2ms'", "0"), ("configuration.c.delay.disk = 'flash'", "1")]).unless(no_delay),
    case("delay.numa", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do L=$(grep Mems_allowed_list $P/status | cut -f2); [ $L = 0 ] && echo 0 || echo others; done | sort -u")), on!("delay on file on ." "configuration.c.file.size = '1MiB'\nconfiguration.c.delay.read = '2ms'"), &[("", "others"), ("configuration.c.delay.numa = '0'", "0")]).unless(one_node),
    case("delay.cpus", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do grep Cpus_allowed_list $P/status | cut -f2; done")), on!("delay on file on ." "configuration.c.file.size = '1MiB'\nconfiguration.c.delay.read = '2ms'"), &[("configuration.c.delay.cpus = '0-1'", "0-1"), ("configuration.c.delay.cpus = '0'", "0")]).unless(no_delay),
];

/// A script that prints a field of the table of the mapped device.
macro_rules! table {
    ($field:literal) => {
        concat!("dmsetup table \"$AT\" | awk '{print ", $field, "}'")
    };
}

#[rustfmt::skip]
const MAPPED: &[Case] = &[
    case("md.level", during("/sys/block", device!("cat /sys/block/$D/md/level")), on!("md on loop on file on ." "configuration.c.file.size = '16MiB'\nconfiguration.c.file.count = 2"), &[("", "raid1"), ("configuration.c.md.level = 'raid10'", "raid10")]).unless(no_md),
    case("md.layout", during("/sys/block", device!("cat /sys/block/$D/md/layout")), on!("md on loop on file on ." "configuration.c.file.size = '16MiB'\nconfiguration.c.file.count = 2"), &[("configuration.c.md = {level = 'raid10', layout = 'n2'}", "258"), ("configuration.c.md = {level = 'raid10', layout = 'f2'}", "513")]).unless(no_md),
    case("md.chunk", during("/sys/block", device!("cat /sys/block/$D/md/chunk_size")), on!("md on loop on file on ." "configuration.c.file.size = '16MiB'\nconfiguration.c.file.count = 2"), &[("configuration.c.md = {level = 'raid10', chunk = '64KiB'}", "65536"), ("configuration.c.md = {level = 'raid10', chunk = '128KiB'}", "131072")]).unless(no_md),
    case("md.bitmap", during("/sys/block", device!("grep -q none /sys/block/$D/md/bitmap/location && echo none || echo internal")), on!("md on loop on file on ." "configuration.c.file.size = '16MiB'\nconfiguration.c.file.count = 2"), &[("", "none"), ("configuration.c.md.bitmap = true", "internal")]).unless(no_md),
    case("md.assume_clean", during("/sys/block", device!("cat /sys/block/$D/md/last_sync_action")), on!("md on loop on file on ." "configuration.c.file.size = '16MiB'\nconfiguration.c.file.count = 2"), &[("", "resync"), ("configuration.c.md.assume_clean = true", "none")]).unless(no_md),
    case("dm.target", during("dmsetup", table!("$3")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("", "linear"), ("configuration.c.dm = {target = 'delay', read = '5ms'}", "delay")]).unless(no_dm),
    case("dm.read", during("dmsetup", table!("$6+0")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'delay', write = '2ms'}", "0"), ("configuration.c.dm = {target = 'delay', read = '5ms'}", "5")]).unless(no_dm),
    case("dm.write", during("dmsetup", table!("$9+0")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'delay', read = '2ms'}", "0"), ("configuration.c.dm = {target = 'delay', write = '5ms'}", "5")]).unless(no_dm),
    case("dm.flush", during("dmsetup", table!("$12+0")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'delay', flush = '3ms'}", "3"), ("configuration.c.dm = {target = 'delay', flush = '5ms'}", "5")]).unless(no_dm),
    case("dm.up", during("dmsetup", table!("$6")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'flakey', up = '3000s', down = '1s'}", "3000"), ("configuration.c.dm = {target = 'flakey', up = '4000s', down = '1s'}", "4000")]).unless(no_dm),
    case("dm.down", during("dmsetup", table!("$7")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'flakey', up = '3000s', down = '1s'}", "1"), ("configuration.c.dm = {target = 'flakey', up = '3000s', down = '2s'}", "2")]).unless(no_dm),
    case("dm.fault", during("dmsetup", "dmsetup table \"$AT\" | grep -o drop_writes || echo none"), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'flakey', up = '3000s', down = '1s'}", "none"), ("configuration.c.dm = {target = 'flakey', up = '3000s', down = '1s', fault = 'drop_writes'}", "drop_writes")]).unless(no_dm),
    case("dm.cipher", during("dmsetup", table!("$4")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'crypt'}", "aes-xts-plain64"), ("configuration.c.dm = {target = 'crypt', cipher = 'aes-cbc-plain64', key_bits = 256}", "aes-cbc-plain64")]).unless(no_dm),
    case("dm.key_bits", during("cryptsetup", "cryptsetup status \"$(dmsetup info -c --noheadings -o name \"$AT\")\" | grep -o '[0-9]* \\[*bits'"), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'crypt'}", "512 bits"), ("configuration.c.dm = {target = 'crypt', key_bits = 256}", "256 bits")]).unless(no_dm),
    case("dm.sector", during("/sys/block", device!("cat /sys/block/$D/queue/logical_block_size")), on!("dm on loop on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.dm = {target = 'crypt'}", "512"), ("configuration.c.dm = {target = 'crypt', sector = 4096}", "4096")]).unless(no_dm),
];

#[rustfmt::skip]
const SERVED: &[Case] = &[
    case("mirror.legs", during("servers", servers!("grep -o 'disk[0-9].img' ../servers | sort -u")), on!("mirror on file on ." "configuration.c.file.size = '16MiB'"), &[("", "disk0.img disk1.img"), ("configuration.c.mirror.legs = 3", "disk0.img disk1.img disk2.img")]).unless(no_fuse),
    case("mirror.policy", during("servers", servers!("grep -o 'policy[ =][^ ]*' ../servers | sort -u")), on!("mirror on file on ." "configuration.c.file.size = '16MiB'"), &[("", "policy adaptive"), ("configuration.c.mirror.policy = 'md-raid1'", "policy md-raid1")]).unless(no_fuse),
    case("mirror.delay", during("servers", servers!("grep -o 'delay[ =][^ ]*' ../servers | sort -u | grep . || echo none")), on!("mirror on file on ." "configuration.c.file.size = '16MiB'"), &[("", "none"), ("configuration.c.mirror.delay = 'flash'", "delay flash")]).unless(no_fuse),
    case("mirror.queues", during("servers", servers!("grep -o 'queues[ =][^ ]*' ../servers | sort -u | grep . || echo none")), on!("mirror on file on ." "configuration.c.file.size = '16MiB'"), &[("", "none"), ("configuration.c.mirror.queues = 4", "queues 4")]).unless(no_fuse),
    case("mirror.numa", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do L=$(grep Mems_allowed_list $P/status | cut -f2); [ $L = 0 ] && echo 0 || echo others; done | sort -u")), on!("mirror on file on ." "configuration.c.file.size = '16MiB'"), &[("", "others"), ("configuration.c.mirror.numa = '0'", "0")]).unless(one_node),
    case("mirror.cpus", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do grep Cpus_allowed_list $P/status | cut -f2; done | sort -u")), on!("mirror on file on ." "configuration.c.file.size = '16MiB'"), &[("configuration.c.mirror.cpus = '0-1'", "0-1"), ("configuration.c.mirror.cpus = '0'", "0")]).unless(no_fuse),
    case("virtiofs.server", during("servers", servers!("grep -o 'dispatch[ =][^ ]*' ../servers | sort -u")), on!("virtiofs on ."), &[("", "dispatch adaptive"), ("configuration.c.virtiofs.server = 'iodyno serve fs {folder} --socket {socket} --stats {stats} --dispatch pool:2'", "dispatch pool:2")]).unless(no_root),
    case("virtiofs.numa", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do L=$(grep Mems_allowed_list $P/status | cut -f2); [ $L = 0 ] && echo 0 || echo others; done | sort -u")), on!("virtiofs on ."), &[("", "others"), ("configuration.c.virtiofs.numa = '0'", "0")]).unless(one_node),
    case("virtiofs.cpus", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do grep Cpus_allowed_list $P/status | cut -f2; done | sort -u")), on!("virtiofs on ."), &[("configuration.c.virtiofs.cpus = '0-1'", "0-1"), ("configuration.c.virtiofs.cpus = '0'", "0")]).unless(no_root),
    case("fuse.server", during("servers", servers!("grep -o 'dispatch[ =][^ ]*' ../servers | sort -u")), on!("fuse on ."), &[("", "dispatch adaptive"), ("configuration.c.fuse.server = 'iodyno serve fs {folder} --mount {mount} --stats {stats} --dispatch pool:2'", "dispatch pool:2")]).unless(no_fuse),
    case("fuse.numa", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do L=$(grep Mems_allowed_list $P/status | cut -f2); [ $L = 0 ] && echo 0 || echo others; done | sort -u")), on!("fuse on ."), &[("", "others"), ("configuration.c.fuse.numa = '0'", "0")]).unless(one_node),
    case("fuse.cpus", during("servers", servers!("for P in $(cut -d' ' -f1 ../servers); do grep Cpus_allowed_list $P/status | cut -f2; done | sort -u")), on!("fuse on ."), &[("configuration.c.fuse.cpus = '0-1'", "0-1"), ("configuration.c.fuse.cpus = '0'", "0")]).unless(no_fuse),
];

/// A script that prints a property of the dataset or volume.
macro_rules! property {
    ($name:literal) => {
        concat!(
            "zfs get -H -o value ",
            $name,
            " \"$(zfs list -H -o name | grep \"$TOKEN\" | tail -1)\""
        )
    };
}
/// A pool on an image.
macro_rules! pool { () => { on!("zfs on file on ." "configuration.c.file.size = '128MiB'") }; }

/// The output of a script during a trial with its own ZFS.
const fn apart(seen: &'static str, script: &'static str) -> Look {
    Look {
        through: Through::Apart(script),
        ..during(seen, script)
    }
}
/// A script that prints a field of the status of the zfs-fuse in the mount namespace of the run.
macro_rules! pools { ($field:literal) => { concat!("N=$(readlink /proc/$TRIAL/ns/mnt); for P in $(grep -lsx zfs-fuse /proc/[0-9]*/comm); do [ \"$(readlink ${P%comm}ns/mnt)\" = \"$N\" ] && grep ", $field, " ${P%comm}status | cut -f2; done") }; }

#[rustfmt::skip]
const ZFS: &[Case] = &[
    case("zfs.layout", during("zfs", "P=$(zpool list -H -o name | grep \"$TOKEN\"); zpool status $P | grep -om1 mirror || echo stripe; zpool get autoreplace $P | awk 'NR == 2 {print $3}'; for N in setuid compression recordsize atime primarycache logbias checksum copies xattr; do zfs get -H -o value $N $(zfs list -H -o name | grep \"$TOKEN\" | tail -1); done"), on!("zfs on file on ." "configuration.c.file.size = '64MiB'"), &[
        ("configuration.c.zfs = {layout = 'stripe 2', compression = 'off', atime = 'on', xattr = 'on'}",
            "stripe off on off 128K on all latency on 1 on"),
        ("configuration.c.zfs = {layout = 'mirror 2', pool.autoreplace = 'on', properties.setuid = 'off', compression = 'gzip', recordsize = '16K', atime = 'off', primarycache = 'metadata', logbias = 'throughput', checksum = 'sha256', copies = '2', xattr = 'off'}",
            "mirror on off gzip 16K off metadata throughput sha256 2 off"),
    ]).and(&["zfs.pool", "zfs.properties", "zfs.compression", "zfs.recordsize", "zfs.atime", "zfs.primarycache", "zfs.logbias", "zfs.checksum", "zfs.copies", "zfs.xattr"]).unless(no_zfs),
    case("zfs.sync", during("zfs", property!("sync")), pool!(), &[("", "standard"), ("configuration.c.zfs.sync = 'always'", "always")]).unless(no_volumes),
    case("zfs.volume", during("zfs", property!("volsize")), pool!(), &[("configuration.c.zfs.volume = '32MiB'", "32M"), ("configuration.c.zfs.volume = '16MiB'", "16M")]).unless(no_volumes),
    case("zfs.volblocksize", during("zfs", property!("volblocksize")), pool!(), &[("configuration.c.zfs.volume = '32MiB'\nconfiguration.c.zfs.volblocksize = '8K'", "8K"), ("configuration.c.zfs.volume = '32MiB'\nconfiguration.c.zfs.volblocksize = '16K'", "16K")]).unless(no_volumes),
    case("zfs.cpus", apart("servers", pools!("Cpus_allowed_list")), pool!(), &[("configuration.c.zfs.cpus = '0-1'", "0-1"), ("configuration.c.zfs.cpus = '0'", "0")]).unless(no_server),
    case("zfs.numa", apart("servers", concat!(pools!("Mems_allowed_list"), " | sed '/^0$/!s/.*/others/'")), pool!(), &[("", "others"), ("configuration.c.zfs.numa = '0'", "0")]).unless(one_node),
    case("zfs.count", during("zfs", "zfs list -Ho name | grep -c \"$TOKEN/copy\""), on!("mirror on zfs on file on ." "configuration.c.file.size = '128MiB'\nconfiguration.c.fill = '8MiB'\nconfiguration.c.zfs.origin = 'copy'"), &[("", "2"), ("configuration.c.zfs.count = 3", "3")]).unless(no_zfs),
    case("zfs.origin", during("zfs", "zfs get -H -o value origin \"$(findmnt -no SOURCE -T \"$AT\")\" | grep -q @ && echo clone || echo none"), pool!(), &[("", "none"), ("configuration.c.zfs.origin = 'clone'\nconfiguration.c.fill = '4MiB'", "clone")]).unless(no_zfs),
];

/// Matches of a pattern in the command line of qemu.
macro_rules! qemu {
    ($pattern:literal) => {
        command!("qemu", "qemu-system-x86_64", $pattern)
    };
}
/// A virtual machine that does not try KVM, which takes 10 s where it does not work.
macro_rules! guest { ($($more:literal)?) => { on!("vm on file on ." "configuration.c.file.size = '64MiB'\nconfiguration.c.vm.accel = 'tcg'\n" $($more)?) }; }
/// A script that prints a field of the status of qemu.
macro_rules! status { ($field:literal) => { concat!("for F in $(grep -lsF \"$TOKEN\" /proc/[0-9]*/cmdline); do tr '\\0' ' ' < $F | grep -qE '^([^ ]*/)?qemu-system-x86_64 ' && grep ", $field, " ${F%cmdline}status | cut -f2; done 2>/dev/null") }; }
/// A shell function that prints the first match of a pattern in `Q` as one word. The script exits if `Q` is empty.
macro_rules! see { () => { "[ -n \"$Q\" ] || exit\nsee() { echo \"$Q\" | grep -oE -- \"$1\" | head -1 | tr -d ' ' | grep . || echo none; }\n" }; }

#[rustfmt::skip]
const GUESTS: &[Case] = &[
    case("vm.cpus", starting("qemu", concat!("CPUS=$(", status!("Cpus_allowed_list"), ")\n[ -n \"$CPUS\" ] || exit\n", lines!("$TOKEN", "qemu-system-x86_64"), see!(), "see '-smp [0-9]*'; see '-m [0-9]*M'; see '[a-z]+/boot/vmlinuz'; see '-device (virtio-blk|nvme)'; see 'cache=[a-z]*'; see 'aio=[a-z_]*'; see '-object iothread'; see 'zone_size=[0-9]*'; echo $CPUS")), guest!(), &[
        ("configuration.c.vm.host_cpus = '0-1'",
            "-smp1 -m512M kernel/boot/vmlinuz -devicevirtio-blk cache=none aio=threads none none 0-1"),
        ("configuration.c.vm.cpus = 2\nconfiguration.c.vm.memory = '600MiB'\nconfiguration.c.vm.kernel = 'link'\nconfiguration.c.vm.disk = {interface = 'nvme', cache = 'directsync', aio = 'native', zone = '4MiB'}\nconfiguration.c.vm.host_cpus = '0'",
            "-smp2 -m600M link/boot/vmlinuz -devicenvme cache=directsync aio=native none zone_size=4194304 0"),
        ("configuration.c.vm.host_cpus = '0-1'\nconfiguration.c.vm.disk.iothread = true",
            "-smp1 -m512M kernel/boot/vmlinuz -devicevirtio-blk cache=none aio=threads -objectiothread none 0-1"),
    ]).and(&["vm.memory", "vm.kernel", "vm.disk.interface", "vm.disk.cache", "vm.disk.aio", "vm.disk.iothread", "vm.disk.zone", "vm.host_cpus"]).after(images).unless(no_images),
    case("vm.image.user", starting("qemu and ssh", concat!(lines!("$TOKEN", "ssh"), see!(), "see 'User=[a-z]*'; see '[a-z]+[.]key'\n", lines!("$TOKEN", "qemu-system-x86_64"), "see '[a-z]+[.]vmlinuz'; see '[a-z]+[.]initrd'; see 'only_this=[a-z]*'; see '[a-z.]+,format=raw,readonly=on'; qemu-img info -U /var/tmp/iodyno-$TOKEN/0.qcow2 | sed -n 's,^backing file\\( format\\)*: \\([^ ]*/\\)*\\([^ ]*\\).*,\\3,p'")), guest!(), &[
        ("configuration.c.vm.image.path = 'one.img'",
            "User=root none none none none iodyno,format=raw,readonly=on one.img raw"),
        ("configuration.c.vm.image = {path = 'two.img', format = 'qcow2', user = 'ada', key = 'its.key', kernel = 'its.vmlinuz', initrd = 'its.initrd', append = 'only_this=word', program = 'its.program'}",
            "User=ada its.key its.vmlinuz its.initrd only_this=word its.program,format=raw,readonly=on two.img qcow2"),
    ]).and(&["vm.image.key", "vm.image.kernel", "vm.image.initrd", "vm.image.append", "vm.image.program", "vm.image.path", "vm.image.format"]).after(images).unless(no_images),
    case("vm.guests", qemu!("id=disk[0-9]"), on!("md on vm on file on ." "configuration.c.file = {size = '64MiB', count = 4}\nconfiguration.c.vm.accel = 'tcg'"), &[("", "id=disk0 id=disk1 id=disk2 id=disk3"), ("configuration.c.vm.guests = 2", "id=disk0 id=disk1")]).unless(no_arrays),
    case("vm.accel", qemu!("-accel [a-z]*"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("configuration.c.vm.accel = 'tcg'", "-accel tcg"), ("configuration.c.vm.accel = 'kvm'", "-accel kvm")]).unless(no_kvm),
    case("vm.boot_timeout", Look::output("error", |run| { run.done.stderr.split("did not answer within ").nth(1).map_or_else(String::new, |it| it.split(" s").next().unwrap_or_default().to_owned()) }), guest!(), &[("configuration.c.vm.boot_timeout = '1s'", "1"), ("configuration.c.vm.boot_timeout = '1.5s'", "1.5")]).after(silent).or_fails().unless(no_guests),
    case("vm.share", qemu!("vhost-user-fs-pci"), "workload.a.fio = {rw='read',bs='4k',size='16k'}", &[("configuration.c = {target = 'vm on file on .', file.size = '64MiB', vm.accel = 'tcg'}", "none"), ("configuration.c = {target = 'vm on directory on .', vm.accel = 'tcg', vm.share = 'iodyno serve fs {folder} --socket {socket}'}", "vhost-user-fs-pci")]).unless(no_guests),
    case("vm.host_numa", starting("qemu", concat!(status!("Mems_allowed_list"), " | sed '/^0$/!s/.*/others/'")), guest!(), &[("", "others"), ("configuration.c.vm.host_numa = '0'", "0")]).unless(one_node),
    case("vm.disk.command", command!("servers", "qemu-storage-daemon", "id=[a-z]+,node"), guest!("configuration.c.vm.disk.interface = 'vhost-user-blk'"), &[("configuration.c.vm.disk.command = 'qemu-storage-daemon --blockdev driver=file,node-name=d,filename={file} --export type=vhost-user-blk,id=one,node-name=d,addr.type=unix,addr.path={socket},writable=on'", "id=one,node"), ("configuration.c.vm.disk.command = 'qemu-storage-daemon --blockdev driver=file,node-name=d,filename={file} --export type=vhost-user-blk,id=other,node-name=d,addr.type=unix,addr.path={socket},writable=on'", "id=other,node")]).unless(no_daemon),
    case("vm.disk.origin", qemu!("format=[a-z0-9]*"), guest!("configuration.c.fill = '1MiB'"), &[("", "format=raw"), ("configuration.c.vm.disk.origin = 'clone'", "format=qcow2")]).unless(no_images),
];

/// The most virtual machines that ran at the same time, as counted when each one started.
const AT_ONCE: Look = Look::output("qemu", |run| {
    let counts = String::from_utf8(run.file("at-once")).unwrap();
    counts.lines().max().unwrap_or("none").to_owned()
});

/// Counts the virtual machines that run when another one begins, and becomes qemu.
fn counted(folder: &Path) {
    let script = r#"case " $* " in *" -name "*)
    cd "$(dirname "$0")/.." && N=1
    for P in $(cat pids 2>/dev/null); do grep -qs . /proc/$P/cmdline && N=$((N + 1)); done
    echo $N >> at-once; echo $$ >> pids; cd "$OLDPWD";;
esac
PATH=${PATH#*:}; exec qemu-system-x86_64 "$@""#;
    stand_in(folder, "qemu-system-x86_64", script);
}

/// A virtual machine that never boots.
fn silent(folder: &Path) {
    stand_in(folder, "qemu-system-x86_64", "exec sleep 1000");
}

/// A guest with these layers on a disk.
macro_rules! inside { ($layers:literal) => { concat!("configuration.c.layers = [", $layers, ", {kind='vm', accel='tcg', memory='512MiB'}, {kind='file', size='32MiB', allocate=false}, {kind='directory', path='.'}]") }; }

#[rustfmt::skip]
const IN_GUESTS: &[Case] = &[
    case("vm.side_by_side", AT_ONCE, "fresh = 'experiment'\nworkload.a.fio = {rw='read',bs='4k',size='16k'}\nconfiguration.c.target = 'vm on file on .'\nconfiguration.c.file.size = '64MiB'\nconfiguration.c.vm.accel = 'tcg'\nconfiguration.d.target = 'vm on file on .'\nconfiguration.d.file.size = '64MiB'\nconfiguration.d.vm.accel = 'tcg'", &[("", "1"), ("configuration.c.vm.side_by_side = true\nconfiguration.d.vm.side_by_side = true", "2")]).after(counted).unless(no_guests).long(),
    case("nfs.version", IN_GUEST, "workload.a.fio = {rw='write',bs='4k',size='64k',end_fsync=1}", &[
        (inside!("{kind='nfs', rsize='64KiB', wsize='32KiB'}, {kind='ext4'}, {kind='dm', target='crypt'}, {kind='dm', target='flakey', up='3000s', down='1s'}, {kind='dm', target='delay', read='1ms', write='2ms', flush='3ms'}, {kind='dm'}, {kind='md'}"),
            "vers=4.2 sync 8 rsize=65536 wsize=32768 hard raid1 none none none resync linear 1 2 3 3000 1 0 aes-xts-plain64 512 none"),
        (inside!("{kind='nfs', version='4.1', sync=false, threads=3, rsize='32KiB', wsize='16KiB', mount='soft'}, {kind='ext4'}, {kind='dm', target='flakey', up='4000s', down='2s', fault='drop_writes'}, {kind='dm', target='delay', read='4ms', write='5ms', flush='6ms'}, {kind='dm', target='crypt', cipher='aes-cbc-plain64', key_bits=256, sector=4096}, {kind='md', level='raid10', layout='f2', chunk='128KiB', bitmap=true, assume_clean=true}"),
            "vers=4.1 async 3 rsize=32768 wsize=16384 soft raid10 far=2 128K internal none crypt 4 5 6 4000 2 1 aes-cbc-plain64 256 sector_size:4096"),
    ]).and(&["nfs.sync", "nfs.threads", "nfs.rsize", "nfs.wsize", "nfs.mount", "md.level", "md.layout", "md.chunk", "md.bitmap", "md.assume_clean", "dm.target", "dm.read", "dm.write", "dm.flush", "dm.up", "dm.down", "dm.fault", "dm.cipher", "dm.key_bits", "dm.sector"]).unless(no_arrays).long(),
];

/// The guest kernel's description of its storage, in the order of the options of the case.
const IN_GUEST: Look = Look::output("guest", |run| {
    let facts = run.value("/trials/0/nodes/0/environment/made/facts");
    let fact = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
    if fact("layers").is_empty() {
        return run.fault();
    }
    let or_none = |word: Option<&str>| word.unwrap_or("none").to_owned();
    let mounted = fact("nfs.options");
    let mount = |names: &[&str]| {
        let named = |word: &&str| names.iter().any(|name| word.starts_with(name));
        or_none(mounted.split(',').find(named))
    };
    let exports = fact("nfs.exports");
    let exported = ["async", "sync"]
        .into_iter()
        .find(|word| exports.contains(word));
    let detail = fact("md.detail");
    let detail = |name: &str| {
        or_none(
            detail
                .split_once(name)
                .and_then(|(_, rest)| rest.split_whitespace().nth(1)),
        )
    };
    let bitmap = match fact("md.bitmap").as_str() {
        "none" => "none",
        _ => "internal",
    };
    // The lines of dmsetup, from the bottom up.
    let tables = ["dm", "dm2", "dm3", "dm4"].map(|name| fact(&format!("{name}.table")));
    let field = |target: &str, number: usize| {
        let mut lines = tables.iter().map(|line| line.split_whitespace());
        or_none(lines.find_map(|mut words| {
            (words.clone().nth(2) == Some(target)).then(|| words.nth(number))?
        }))
    };
    [
        mount(&["vers="]),
        or_none(exported),
        fact("nfs.threads"),
        mount(&["rsize="]),
        mount(&["wsize="]),
        mount(&["hard", "soft"]),
        fact("md.level"),
        detail("Layout"),
        detail("Chunk Size"),
        bitmap.to_owned(),
        fact("md.last_sync"),
        or_none(tables[0].split_whitespace().nth(2)),
        field("delay", 5),
        field("delay", 8),
        field("delay", 11),
        field("flakey", 5),
        field("flakey", 6),
        field("flakey", 7),
        field("crypt", 3),
        (field("crypt", 4).len() * 4).to_string(),
        field("crypt", 9),
    ]
    .join(" ")
});

fn sub(folder: &Path) {
    std::fs::create_dir(folder.join("sub")).unwrap();
}

fn no_zram() -> Option<&'static str> {
    let missing = !Path::new("/sys/class/zram-control").exists();
    no_ext4().or_else(|| missing.then_some("the kernel has no zram"))
}

fn no_xfs() -> Option<&'static str> {
    no_zram().or_else(|| without("mkfs.xfs", "mkfs.xfs is not installed"))
}

fn no_btrfs() -> Option<&'static str> {
    no_zram().or_else(|| without("mkfs.btrfs", "mkfs.btrfs is not installed"))
}

fn no_fuse() -> Option<&'static str> {
    let missing = !Path::new("/dev/fuse").exists();
    no_loop().or_else(|| missing.then_some("there is no /dev/fuse"))
}

fn no_delay() -> Option<&'static str> {
    let nbdkit = || without("nbdkit", "nbdkit is not installed");
    no_fuse()
        .or_else(nbdkit)
        .or_else(|| without("nbdfuse", "nbdfuse is not installed"))
}

fn no_limits() -> Option<&'static str> {
    let one = Path::new("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device").exists();
    let two = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
        .is_ok_and(|it| it.contains("io"));
    no_loop().or_else(|| (!one && !two).then_some("no control group limits devices"))
}

fn no_md() -> Option<&'static str> {
    let missing = !Path::new("/proc/mdstat").exists();
    let tool = no_loop().or_else(|| without("mdadm", "mdadm is not installed"));
    tool.or_else(|| missing.then_some("the kernel has no md"))
}

fn no_dm() -> Option<&'static str> {
    let missing = !Path::new("/sys/module/dm_mod").exists();
    let tool = no_loop().or_else(|| without("cryptsetup", "cryptsetup is not installed"));
    tool.or_else(|| missing.then_some("the kernel has no device mapper"))
}

fn no_zfs() -> Option<&'static str> {
    let kernel = Path::new("/sys/module/zfs").exists();
    let tool = no_root().or_else(|| without("zpool", "zpool is not installed"));
    tool.or_else(|| (!kernel).then(|| without("zfs-fuse", "there is neither ZFS nor zfs-fuse"))?)
}

fn one_node() -> Option<&'static str> {
    let second = Path::new("/sys/devices/system/node/node1").exists();
    let one = (!second).then_some("the host has one NUMA node");
    one.or_else(|| without("numactl", "numactl is not installed"))
        .or_else(no_delay)
        .or_else(no_guests)
        .or_else(no_server)
}

fn no_guests() -> Option<&'static str> {
    let kernel = Path::new("/var/cache/iodyno/kernel/boot").exists();
    let qemu = no_root().or_else(|| without("qemu-system-x86_64", "qemu is not installed"));
    qemu.or_else(|| (!kernel).then_some("the guest kernel is missing: run `make guest-kernel`"))
}

fn no_kvm() -> Option<&'static str> {
    let missing = !Path::new("/dev/kvm").exists();
    no_guests().or_else(|| missing.then_some("there is no /dev/kvm"))
}

fn no_daemon() -> Option<&'static str> {
    let daemon = || {
        without(
            "qemu-storage-daemon",
            "qemu-storage-daemon is not installed",
        )
    };
    no_guests().or_else(daemon)
}

fn no_images() -> Option<&'static str> {
    let ssh = || without("ssh", "ssh is not installed");
    no_guests().or_else(|| without("qemu-img", "qemu-img is not installed").or_else(ssh))
}

fn no_arrays() -> Option<&'static str> {
    let tools = || {
        without("mdadm", "mdadm is not installed")
            .or_else(|| without("cryptsetup", "cryptsetup is not installed"))
    };
    no_guests().or_else(tools)
}

/// OpenZFS in the kernel runs no server process.
fn no_server() -> Option<&'static str> {
    let kernel = Path::new("/sys/module/zfs").exists();
    no_zfs().or_else(|| kernel.then_some("ZFS is in the kernel"))
}

/// Disk images that do not boot, their companion files, and the folder of the guests' kernel under another name.
fn images(folder: &Path) {
    symlink("/var/cache/iodyno/kernel", folder.join("link")).unwrap();
    let mut kernels = std::fs::read_dir("/var/cache/iodyno/kernel/boot")
        .unwrap()
        .flatten();
    let kernel = kernels.find(|file| file.file_name().to_string_lossy().starts_with("vmlinuz"));
    symlink(kernel.unwrap().path(), folder.join("its.vmlinuz")).unwrap();
    for name in ["one.img", "its.key", "its.initrd", "its.program"] {
        std::fs::write(folder.join(name), [0; 4096]).unwrap();
    }
    let image = folder.join("two.img");
    let mut create = Command::new("qemu-img");
    create
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&image)
        .arg("1M");
    assert!(create.status().unwrap().success());
}

/// zfs-fuse has neither volumes nor some properties.
fn no_volumes() -> Option<&'static str> {
    let missing = !Path::new("/sys/module/zfs").exists();
    no_zfs().or_else(|| missing.then_some("the kernel has no ZFS"))
}
