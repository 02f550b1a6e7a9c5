//! The options of layers, seen on the host during a trial.

use std::path::Path;

use crate::case::{Case, Language, case};
use crate::experiments::{arguments, during, keys, no_ext4, no_loop, no_root, starting, without};

pub(crate) static LANGUAGE: Language = Language {
    name: "layers",
    options: || keys(true),
    topics: &[FILES, FILE_SYSTEMS, LIMITS, MAPPED, SERVED, ZFS, GUESTS],
    without: WITHOUT,
    table: "crates/experiment/src/layer_effects.txt",
    arguments,
};

/// These need a blank device, a guest that has booted, or zfs-fuse for themselves.
#[rustfmt::skip]
const WITHOUT: &[&str] = &[
    "device.paths", "md.assume_clean", "zfs.cpus", "zfs.numa",
    "nfs.version", "nfs.sync", "nfs.threads", "nfs.rsize", "nfs.wsize", "nfs.mount",
    "vm.guests", "vm.accel", "vm.kernel", "vm.share", "vm.host_cpus", "vm.host_numa", "vm.side_by_side",
    "vm.image.path", "vm.image.format", "vm.image.user", "vm.image.key", "vm.image.kernel", "vm.image.initrd", "vm.image.append", "vm.image.program",
    "vm.disk.command", "vm.disk.origin",
];

/// A workload that reads until it is stopped, on this target.
macro_rules! on { ($target:literal $($more:literal)?) => { concat!("workload.a.fio = {rw='read',bs='4k',size='16k',rate_iops=100,time_based=1,runtime='1h'}\nconfiguration.c.target = '", $target, "'\n", $($more)?) }; }
/// A script that prints a field of the mount of the job's file.
macro_rules! mount {
    ($field:literal, $more:literal) => {
        concat!("findmnt -no ", $field, " -T \"$AT\" ", $more)
    };
}
/// A script with the name of the device below the file system of the job's file, or of the job's device.
macro_rules! device { ($script:literal) => { concat!("D=$(findmnt -no SOURCE -T \"$AT\"); case $AT in /dev/*) D=$(realpath $AT);; esac; D=${D#/dev/}\n", $script) }; }
/// A script that prints what is asked of the command lines of servers that name a file or folder of this one.
macro_rules! servers { ($script:literal) => { concat!("for P in /proc/[0-9]*; do tr '\\0' ' ' 2>/dev/null < $P/cmdline | grep -F \"$PWD/iodyno-\" | grep -qE '(^|/)(iodyno serve|nbdkit) ' && echo \"$P $(tr '\\0' ' ' < $P/cmdline)\"; done | sort > ../servers\n", $script) }; }

#[rustfmt::skip]
const FILES: &[Case] = &[
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

#[rustfmt::skip]
const ZFS: &[Case] = &[
    case("zfs.layout", during("zpool", "zpool status \"$(zpool list -H -o name | grep \"$TOKEN\")\" | grep -o mirror || echo stripe"), on!("zfs on file on ." "configuration.c.file.size = '64MiB'"), &[("configuration.c.zfs.layout = 'stripe 2'", "stripe"), ("configuration.c.zfs.layout = 'mirror 2'", "mirror")]).unless(no_zfs),
    case("zfs.pool", during("zpool", "zpool get autoreplace \"$(zpool list -H -o name | grep \"$TOKEN\")\" | awk 'NR == 2 {print $3}'"), pool!(), &[("", "off"), ("configuration.c.zfs.pool.autoreplace = 'on'", "on")]).unless(no_zfs),
    case("zfs.properties", during("zfs", property!("setuid")), pool!(), &[("", "on"), ("configuration.c.zfs.properties.setuid = 'off'", "off")]).unless(no_zfs),
    case("zfs.compression", during("zfs", property!("compression")), pool!(), &[("configuration.c.zfs.compression = 'off'", "off"), ("configuration.c.zfs.compression = 'gzip'", "gzip")]).unless(no_zfs),
    case("zfs.recordsize", during("zfs", property!("recordsize")), pool!(), &[("", "128K"), ("configuration.c.zfs.recordsize = '16K'", "16K")]).unless(no_zfs),
    case("zfs.sync", during("zfs", property!("sync")), pool!(), &[("", "standard"), ("configuration.c.zfs.sync = 'always'", "always")]).unless(no_volumes),
    case("zfs.atime", during("zfs", property!("atime")), pool!(), &[("configuration.c.zfs.atime = 'on'", "on"), ("configuration.c.zfs.atime = 'off'", "off")]).unless(no_zfs),
    case("zfs.primarycache", during("zfs", property!("primarycache")), pool!(), &[("", "all"), ("configuration.c.zfs.primarycache = 'metadata'", "metadata")]).unless(no_zfs),
    case("zfs.logbias", during("zfs", property!("logbias")), pool!(), &[("", "latency"), ("configuration.c.zfs.logbias = 'throughput'", "throughput")]).unless(no_zfs),
    case("zfs.checksum", during("zfs", property!("checksum")), pool!(), &[("", "on"), ("configuration.c.zfs.checksum = 'sha256'", "sha256")]).unless(no_zfs),
    case("zfs.copies", during("zfs", property!("copies")), pool!(), &[("", "1"), ("configuration.c.zfs.copies = '2'", "2")]).unless(no_zfs),
    case("zfs.xattr", during("zfs", property!("xattr")), pool!(), &[("configuration.c.zfs.xattr = 'on'", "on"), ("configuration.c.zfs.xattr = 'off'", "off")]).unless(no_zfs),
    case("zfs.volume", during("zfs", property!("volsize")), pool!(), &[("configuration.c.zfs.volume = '32MiB'", "32M"), ("configuration.c.zfs.volume = '16MiB'", "16M")]).unless(no_volumes),
    case("zfs.volblocksize", during("zfs", property!("volblocksize")), pool!(), &[("configuration.c.zfs.volume = '32MiB'\nconfiguration.c.zfs.volblocksize = '8K'", "8K"), ("configuration.c.zfs.volume = '32MiB'\nconfiguration.c.zfs.volblocksize = '16K'", "16K")]).unless(no_volumes),
    case("zfs.origin", during("zfs", "zfs get -H -o value origin \"$(findmnt -no SOURCE -T \"$AT\")\" | grep -q @ && echo clone || echo none"), pool!(), &[("", "none"), ("configuration.c.zfs.origin = 'clone'\nconfiguration.c.fill = '4MiB'", "clone")]).unless(no_zfs),
];

/// What matches a pattern in the command line of qemu.
macro_rules! qemu { ($pattern:literal) => { starting("qemu", concat!("Q=$(for P in /proc/[0-9]*; do tr '\\0' ' ' 2>/dev/null < $P/cmdline | grep -F \"$PWD/iodyno-\" | grep '^[^ ]*qemu-system'; done)\n[ -z \"$Q\" ] || echo \"$Q\" | grep -oE -- '", $pattern, "' || echo none")) }; }

#[rustfmt::skip]
const GUESTS: &[Case] = &[
    case("vm.cpus", qemu!("-smp [0-9]*"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("", "-smp 1"), ("configuration.c.vm.cpus = 2", "-smp 2")]).unless(no_guests),
    case("vm.memory", qemu!("-m [0-9]*M"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("", "-m 512M"), ("configuration.c.vm.memory = '600MiB'", "-m 600M")]).unless(no_guests),
    case("vm.disk.interface", qemu!("-device (virtio-blk|nvme)"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("", "-device virtio-blk"), ("configuration.c.vm.disk.interface = 'nvme'", "-device nvme")]).unless(no_guests),
    case("vm.disk.cache", qemu!("cache=[a-z]*"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("", "cache=none"), ("configuration.c.vm.disk.cache = 'writeback'", "cache=writeback")]).unless(no_guests),
    case("vm.disk.aio", qemu!("aio=[a-z_]*"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("", "aio=threads"), ("configuration.c.vm.disk.aio = 'native'", "aio=native")]).unless(no_guests),
    case("vm.disk.iothread", qemu!("-object iothread"), on!("vm on file on ." "configuration.c.file.size = '64MiB'"), &[("", "none"), ("configuration.c.vm.disk.iothread = true", "-object iothread")]).unless(no_guests),
    case("vm.disk.zone", qemu!("zoned[.]zone_size=[0-9]*"), on!("vm on file on ." "configuration.c.file.size = '64MiB'\nconfiguration.c.vm.disk.interface = 'nvme'"), &[("", "none"), ("configuration.c.vm.disk.zone = '4MiB'", "zoned.zone_size=4194304")]).unless(no_guests),
];

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
    no_delay().or_else(|| (!second).then_some("the host has one NUMA node"))
}

fn no_guests() -> Option<&'static str> {
    let kernel = Path::new("/var/cache/iodyno/kernel/boot").exists();
    let qemu = no_root().or_else(|| without("qemu-system-x86_64", "qemu is not installed"));
    qemu.or_else(|| (!kernel).then_some("the guest kernel is missing: run `make guest-kernel`"))
}

/// zfs-fuse has neither volumes nor some properties.
fn no_volumes() -> Option<&'static str> {
    let missing = !Path::new("/sys/module/zfs").exists();
    no_zfs().or_else(|| missing.then_some("the kernel has no ZFS"))
}
