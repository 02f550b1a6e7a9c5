//! Interrupts: the reported sources, their names, and the devices that they serve.

use std::fmt::Write as _;

use iodyno_model::SeriesKind::Interrupts;

use crate::host::{Host, Received, named};

const XEN: &str = include_str!("../data/interrupts-xen.txt");
const VIRTIO: &str = include_str!("../data/interrupts-6.18.txt");

#[test]
fn sources_have_the_names_of_their_devices_and_those_that_never_counted_are_left_out() {
    let host = Host::whole();
    host.device("pci0000:00/0000:00:02.0/virtio1/block/vda");
    host.device("pci0000:00/0000:00:02.0/virtio1/block/vda/vda1");
    for number in ["35", "36"] {
        host.write(
            &format!("sys/devices/pci0000:00/0000:00:02.0/msi_irqs/{number}"),
            "msix\n",
        );
    }
    let (mut collector, mut heard) = (host.open(named(&["vda1", "vda"])), Received::default());
    collector.begin(0);
    host.proc(
        "interrupts",
        &VIRTIO.replace(" 38:          0 ", " 38:        100 "),
    );
    heard.sample(&mut collector, 1);
    let rows: Vec<(&str, Option<&str>)> = heard
        .shape(Interrupts)
        .subjects
        .iter()
        .map(|row| (row.name.as_str(), row.serves.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("35 virtio1-config", Some("vda")),
            ("36 virtio1-req.0", Some("vda")),
            ("38 virtio2-input.0", None),
            ("LOC Local timer interrupts", None),
            ("IWI IRQ work interrupts", None),
            ("RES Rescheduling interrupts", None),
            ("CAL Function call interrupts", None),
            ("TLB TLB shootdowns", None),
            ("HYP Hypervisor callback interrupts", None),
        ]
    );
    let columns = heard.shape(Interrupts).columns.iter();
    assert!(
        columns
            .map(|column| column.name.as_str())
            .eq(["CPU0", "CPU1"])
    );
    // It was read before it became a row.
    assert_eq!(
        heard.value(Interrupts, "38 virtio2-input.0", "CPU0"),
        Some(100)
    );
}

#[test]
fn a_source_becomes_a_row_after_enough_interrupts_and_remains_one() {
    let host = Host::whole();
    let write = |nic, timer, disk| {
        host.proc(
            "interrupts",
            &format!(
                "     CPU0\n 40: {nic}  PCI-MSIX-0000:00:03.0   0-edge      eth0-rx-0\n \
                 41: {disk}  PCI-MSIX-0000:00:04.0   1-edge      nvme0q1\n\
                 LOC: {timer}   Local timer interrupts\nERR: 0\nMIS: 0\n"
            ),
        );
    };
    write(1000, 0, 0);
    host.device("virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
    let (mut collector, mut heard) = (host.begin(), Received::default());
    assert_eq!(heard.sample(&mut collector, 1).of(Interrupts).count(), 0);
    let eth = "40 eth0-rx-0";
    for (at_s, counts, rows, because, value) in [
        (
            2,
            (1050, 3, 0),
            vec!["LOC Local timer interrupts"],
            None,
            None,
        ),
        (
            3,
            (1100, 3, 0),
            vec![eth, "LOC Local timer interrupts"],
            Some("40 eth0-rx-0 appeared"),
            Some(50),
        ),
        (
            4,
            (1100, 4, 7),
            vec![eth, "41 nvme0q1", "LOC Local timer interrupts"],
            Some("41 nvme0q1 appeared"),
            Some(0),
        ),
    ] {
        write(counts.0, counts.1, counts.2);
        heard.sample(&mut collector, at_s);
        assert_eq!(heard.rows(Interrupts), rows, "{at_s}");
        assert_eq!(heard.shape(Interrupts).because.as_deref(), because);
        if let Some(value) = value {
            assert_eq!(heard.value(Interrupts, eth, "CPU0"), Some(value));
        }
    }
    assert_eq!(heard.value(Interrupts, "41 nvme0q1", "CPU0"), Some(7));
    let nvme = &heard.shape(Interrupts).subjects[1];
    assert_eq!(nvme.serves.as_deref(), Some("nvme0n1"));
    assert_eq!(heard.gaps(Interrupts), []);
}

#[test]
fn an_interrupt_serves_the_disk_below_its_controller() {
    let host = Host::whole();
    // A controller with a single line, and a bridge above it with its own interrupts.
    host.device("pci0000:00/0000:00:1c.0/0000:01:00.0/ata1/host0/block/sda");
    host.write("sys/devices/pci0000:00/0000:00:1c.0/msi_irqs/24", "msi\n");
    host.write(
        "sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0/irq",
        "19\n",
    );
    // An interrupt without a number is recognised by its driver's name.
    host.device("platform/virtio-mmio.3/virtio12/block/vdb");
    host.device("virtual/block/loop0");
    host.proc(
        "interrupts",
        "      CPU0 CPU1\n \
         19: 5 5  IO-APIC  19-fasteoi   ahci, ehci_hcd:usb1\n \
         24: 5 5  PCI-MSI 458752-edge      PCIe PME\n \
         30: 5 5  GICv3  48 Edge      virtio12\n \
         31: 5 5  GICv3  49 Edge      virtio1\n \
         32: 5 5  GICv3  50 Level     \n\
         IPI0: 5 5  Rescheduling interrupts\n",
    );
    let (mut collector, mut heard) = (host.begin(), Received::default());
    let text = std::fs::read_to_string(host.path("proc/interrupts")).unwrap();
    host.proc("interrupts", &text.replace("5 5", "200 7"));
    heard.sample(&mut collector, 1);
    let rows: Vec<(&str, Option<&str>)> = heard
        .shape(Interrupts)
        .subjects
        .iter()
        .map(|row| (row.name.as_str(), row.serves.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("19 ahci, ehci_hcd:usb1", Some("sda")),
            ("24 PCIe PME", None),
            ("30 virtio12", Some("vdb")),
            ("31 virtio1", None),
            ("32 GICv3 50 Level", None),
            ("IPI0 Rescheduling interrupts", None),
        ]
    );
    assert_eq!(heard.value(Interrupts, "30 virtio12", "CPU0"), Some(195));
    assert_eq!(heard.value(Interrupts, "30 virtio12", "CPU1"), Some(2));
}

#[test]
fn counts_wrap_at_32_bits_and_restart_with_their_driver() {
    let host = Host::whole();
    let write = |loc: u64, res: u64| {
        let text = format!("  CPU0\nLOC: {loc} Local timer\nRES: {res} Rescheduling\n");
        host.proc("interrupts", &text);
    };
    write((1 << 32) - 10, 500_000);
    let (mut collector, mut heard) = (host.begin(), Received::default());
    write(5, 20);
    heard.sample(&mut collector, 1);
    assert_eq!(heard.value(Interrupts, "LOC Local timer", "CPU0"), Some(15));
    assert_eq!(heard.value(Interrupts, "RES Rescheduling", "CPU0"), None);
    assert_eq!(
        heard.gaps(Interrupts),
        [(
            1,
            "counts decreased and restart from this sample: RES Rescheduling (CPU0)"
        )]
    );
}

#[test]
fn the_recorded_table_is_read_with_its_disks_interrupts_on_one_cpu() {
    let host = Host::whole();
    let empty: String = XEN
        .lines()
        .take(1)
        .map(|line| format!("{line}\n"))
        .collect();
    let zeros: String = XEN
        .lines()
        .skip(1)
        .map(|line| {
            let (id, _) = line.split_once(':').unwrap();
            let name = line.split_whitespace().next_back().unwrap();
            format!("{id}: {}  xen-dyn-event     {name}\n", "0 ".repeat(8))
        })
        .collect();
    host.proc("interrupts", &(empty + &zeros));
    let (mut collector, mut heard) = (host.begin(), Received::default());
    host.proc("interrupts", XEN);
    heard.sample(&mut collector, 1);
    assert_eq!(heard.rows(Interrupts).len(), 20);
    assert_eq!(heard.rows(Interrupts)[3], "99 blkif");
    for (cpu, expected) in [("CPU0", 20_281_233), ("CPU1", 0), ("CPU7", 55_041)] {
        assert_eq!(heard.value(Interrupts, "99 blkif", cpu), Some(expected));
    }
}

/// Hundreds of sources on 64 CPUs, each queue on a separate CPU.
fn large(count: impl Fn(usize) -> u64) -> String {
    let mut text: String = (0..64).map(|cpu| format!("       CPU{cpu:<4}")).collect();
    text.push('\n');
    for source in 0..500 {
        write!(text, "{:>4}:", 24 + source).unwrap();
        for cpu in 0..64 {
            let own = if cpu == source % 64 { count(source) } else { 0 };
            write!(text, " {own:>10}").unwrap();
        }
        let (drive, queue) = (source / 65, source % 65);
        let place = format!(
            "PCI-MSIX-0000:{:02x}:00.0  {queue:>2}-edge      ",
            1 + drive
        );
        writeln!(text, " {place}nvme{drive}q{queue}").unwrap();
    }
    text
}

#[test]
fn only_sources_of_disks_in_the_scope_and_busy_ones_are_rows() {
    let host = Host::whole();
    host.device("pci0000:00/0000:04:00.0/nvme/nvme3/nvme3n1");
    for message in 24 + 3 * 65..24 + 4 * 65 {
        host.write(
            &format!("sys/devices/pci0000:00/0000:04:00.0/msi_irqs/{message}"),
            "msix\n",
        );
    }
    host.proc("interrupts", &large(|_| 1_000_000));
    let (mut collector, mut heard) = (host.open(named(&["nvme3n1"])), Received::default());
    collector.begin(0);
    for at_s in 1..=20u64 {
        // Drive 3 is under test, 5 is busy with other work, the others have few interrupts.
        host.proc(
            "interrupts",
            &large(|source| match source / 65 {
                3 | 5 => 1_000_000 + at_s * 5000,
                _ => 1_000_000 + at_s,
            }),
        );
        heard.sample(&mut collector, at_s as i64);
    }
    let shapes = heard
        .0
        .shapes
        .iter()
        .filter(|shape| shape.kind == Interrupts);
    assert_eq!(shapes.count(), 1);
    let rows = &heard.shape(Interrupts).subjects;
    assert_eq!(rows.len(), 130);
    let serving = rows
        .iter()
        .filter(|row| row.serves.as_deref() == Some("nvme3n1"));
    assert_eq!(serving.count(), 65);
    assert_eq!(heard.value(Interrupts, "219 nvme3q0", "CPU3"), Some(5000));
}
