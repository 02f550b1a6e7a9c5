//! Numbers of the NBD protocol, for clients and servers. Source: `proto.md` of the NBD project.

/// Begins the greeting of a server.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Follows it in the newstyle negotiation, and begins each option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Follows it in the oldstyle negotiation.
pub const OLDSTYLE: u64 = 0x0000_4202_8186_1253;
/// Begins the reply to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Begins a request.
pub const REQUEST: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY: u32 = 0x6744_6698;

/// Flag of the handshake: unknown options are answered.
pub const FIXED_NEWSTYLE: u16 = 1;
/// Flag of the handshake: no padding after the answer to [`OPT_EXPORT_NAME`].
pub const NO_ZEROES: u16 = 2;

/// Options.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Ends the negotiation.
pub const OPT_ABORT: u32 = 2;
/// Lists the exports.
pub const OPT_LIST: u32 = 3;
/// Describes an export.
pub const OPT_INFO: u32 = 6;
/// The same, and begins the transmission.
pub const OPT_GO: u32 = 7;

/// Replies to options.
pub const REP_ACK: u32 = 1;
/// Describes an export of a list.
pub const REP_SERVER: u32 = 2;
/// Describes the export of INFO or GO.
pub const REP_INFO: u32 = 3;
/// This bit marks errors.
pub const REP_ERR: u32 = 1 << 31;
/// The option is unknown.
pub const REP_ERR_UNSUP: u32 = REP_ERR + 1;
/// The server does not permit it.
pub const REP_ERR_POLICY: u32 = REP_ERR + 2;
/// The option is not valid.
pub const REP_ERR_INVALID: u32 = REP_ERR + 3;
/// TLS is required.
pub const REP_ERR_TLS_REQD: u32 = REP_ERR + 5;
/// The export is unknown.
pub const REP_ERR_UNKNOWN: u32 = REP_ERR + 6;
/// The option is too long.
pub const REP_ERR_TOO_BIG: u32 = REP_ERR + 9;

/// Kinds of information: length and flags.
pub const INFO_EXPORT: u16 = 0;
/// Limits of the length of requests.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Flags of an export: the others are valid.
pub const HAS_FLAGS: u16 = 1;
/// Writes fail.
pub const READ_ONLY: u16 = 2;
/// FLUSH is offered.
pub const SEND_FLUSH: u16 = 4;
/// [`FUA`] is offered.
pub const SEND_FUA: u16 = 8;
/// The medium rotates.
pub const ROTATIONAL: u16 = 16;
/// TRIM is offered.
pub const SEND_TRIM: u16 = 32;
/// WRITE_ZEROES is offered.
pub const SEND_WRITE_ZEROES: u16 = 64;
/// A flush covers the writes of all connections.
pub const CAN_MULTI_CONN: u16 = 256;

/// Flag of a request: durable before the reply.
pub const FUA: u16 = 1;
/// Flag of WRITE_ZEROES: the range stays allocated.
pub const NO_HOLE: u16 = 2;

/// Kinds of requests.
pub const CMD_READ: u16 = 0;
/// A write; its bytes follow.
pub const CMD_WRITE: u16 = 1;
/// Ends the connection.
pub const CMD_DISC: u16 = 2;
/// Makes completed writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Deallocates a range.
pub const CMD_TRIM: u16 = 4;
/// Writes zeros.
pub const CMD_WRITE_ZEROES: u16 = 6;

/// The longest request of clients that got no limit, bytes.
pub const MAX_BYTES: u32 = 32 << 20;

/// Length of a request's header, bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of the header of a simple reply, bytes.
pub const REPLY_BYTES: usize = 16;

/// The header of a request.
pub fn request(
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u32,
) -> [u8; REQUEST_BYTES] {
    let mut header = [0; REQUEST_BYTES];
    header[..4].copy_from_slice(&REQUEST.to_be_bytes());
    header[4..6].copy_from_slice(&flags.to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..24].copy_from_slice(&offset.to_be_bytes());
    header[24..].copy_from_slice(&length.to_be_bytes());
    header
}
