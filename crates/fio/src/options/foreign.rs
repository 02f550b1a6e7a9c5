//! Options of unsupported features: data placement, and engines that are refused.
//!
//! They are listed so that they are not reported as misspellings.

use iodyno_options::{
    Unit::{self, *},
    differs, ignored, refused,
};

use crate::options::OptionSpec;

const PRIORITIES: &str = "all ops of a job have the same priority";
const PLACEMENT: &str = "data placement needs passthrough commands";
const MORE_PLACEMENT: &str = "it only modifies `dataplacement`, which is refused";

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    refused("ioscheduler", Text, "Sets the device's I/O scheduler.", "a job file does not change the host", "use `/sys/block/…/queue/scheduler`, before iodyno"),
    differs("cmdprio_percentage", Percent, "Percentage of ops with another priority.", PRIORITIES).neutral(&["0"]),
    differs("cmdprio_bssplit", Text, "Priorities by size.", PRIORITIES),
    cmdprio("cmdprio_class", "Class of those ops."),
    cmdprio("cmdprio", "Level of those ops."),
    cmdprio("cmdprio_hint", "Hint of those ops."),
    refused("fdp", Boolean, "Flexible data placement.", PLACEMENT, "leave it out").neutral(&["0"]),
    refused("dataplacement", Words(&["none", "fdp", "streams"]), "Data placement.", PLACEMENT, "leave it out").alias(&["data_placement"]).neutral(&["none"]),
    ignored("plid_select", Text, "How placements are chosen.", MORE_PLACEMENT).alias(&["fdp_pli_select"]),
    ignored("plids", Numbers, "The placements used.", MORE_PLACEMENT).alias(&["fdp_pli"]),
    ignored("dp_scheme", Text, "A file of placements.", MORE_PLACEMENT),
    engine("pool", "rbd, rados and dfs"),
    engine("cont", "dfs"),
    engine("chunk_size", "dfs and libhdfs").alias(&["chunck_size"]),
    engine("object_class", "dfs"),
    engine("svcl", "dfs"),
    engine("donorname", "e4defrag"),
    engine("inplace", "e4defrag"),
    engine("program", "exec"),
    engine("arguments", "exec"),
    engine("grace_time", "exec"),
    engine("std_redirect", "exec"),
    ignored("stat_type", Words(&["stat", "lstat", "statx"]), "filestat and dirstat: the system call.", "files of a trial are no links, and the calls do the same"),
    engine("volume", "gfapi"),
    engine("brick", "gfapi"),
    engine("https", "http"),
    engine("http_host", "http"),
    engine("http_user", "http"),
    engine("http_pass", "http"),
    engine("http_s3_key", "http"),
    engine("http_s3_keyid", "http"),
    engine("http_s3_security_token", "http"),
    engine("http_swift_auth_token", "http"),
    engine("http_s3_region", "http"),
    engine("http_s3_sse_customer_key", "http"),
    engine("http_s3_sse_customer_algorithm", "http"),
    engine("http_s3_storage_class", "http"),
    engine("http_mode", "http"),
    engine("http_verbose", "http"),
    engine("http_object_mode", "http"),
    engine("write_mode", "io_uring_cmd"),
    engine("read_mode", "io_uring_cmd"),
    engine("verify_mode", "io_uring_cmd"),
    engine("verify_bytchk", "io_uring_cmd"),
    engine("cmd_type", "io_uring_cmd"),
    engine("cdb_len", "io_uring_cmd"),
    engine("md_per_io_size", "io_uring_cmd and xnvme"),
    engine("pi_act", "io_uring_cmd and xnvme"),
    engine("pi_chk", "io_uring_cmd and xnvme"),
    engine("apptag", "io_uring_cmd and xnvme"),
    engine("apptag_mask", "io_uring_cmd and xnvme"),
    engine("deac", "io_uring_cmd"),
    engine("libblkio_driver", "libblkio"),
    engine("libblkio_path", "libblkio"),
    engine("libblkio_pre_connect_props", "libblkio"),
    engine("libblkio_num_entries", "libblkio"),
    engine("libblkio_queue_size", "libblkio"),
    engine("libblkio_pre_start_props", "libblkio"),
    engine("libblkio_vectored", "libblkio"),
    engine("libblkio_write_zeroes_on_trim", "libblkio"),
    engine("libblkio_wait_mode", "libblkio"),
    engine("libblkio_force_enable_completion_eventfd", "libblkio"),
    engine("gpu_dev_ids", "libcufile and libhipfile"),
    engine("cuda_io", "libcufile"),
    engine("rocm_io", "libhipfile"),
    engine("namenode", "libhdfs"),
    engine("hdfsdirectory", "libhdfs"),
    engine("single_instance", "libhdfs"),
    engine("hdfs_use_direct", "libhdfs"),
    engine("initiator", "libiscsi"),
    engine("skip_bad", "mtd"),
    engine("uri", "nbd"),
    engine("nfs_url", "nfs"),
    engine("hostname", "net, rdma and libhdfs"),
    engine("port", "net, rdma and libhdfs"),
    engine("protocol", "net").alias(&["proto"]),
    engine("nodelay", "net"),
    engine("listen", "net"),
    engine("pingpong", "net"),
    engine("interface", "net"),
    engine("ttl", "net"),
    engine("window_size", "net"),
    engine("mss", "net"),
    engine("bindname", "rdma"),
    engine("verb", "rdma"),
    engine("clustername", "rados and rbd"),
    engine("clientname", "rados and rbd"),
    engine("rbdname", "rbd"),
    engine("conf", "rados"),
    engine("busy_poll", "rados and rbd"),
    engine("touch_objects", "rados"),
    engine("sg_write_mode", "sg"),
    engine("stream_id", "sg"),
    engine("no_completion_thread", "windowsaio"),
    engine("xnvme_be", "xnvme"),
    engine("xnvme_mem", "xnvme"),
    engine("xnvme_async", "xnvme"),
    engine("xnvme_sync", "xnvme"),
    engine("xnvme_admin", "xnvme"),
    engine("xnvme_dev_nsid", "xnvme"),
    engine("xnvme_dev_subnqn", "xnvme"),
    engine("xnvme_iovec", "xnvme"),
];

const fn cmdprio(name: &'static str, text: &'static str) -> OptionSpec {
    let why = "it only modifies `cmdprio_percentage`, which is ignored";
    ignored(name, Unit::Count, text, why)
}

/// An option of a refused engine, without any other effect.
const fn engine(name: &'static str, text: &'static str) -> OptionSpec {
    let why = "it belongs to an engine that is refused, and has no effect with any other";
    differs(name, Unit::Text, text, why)
}
