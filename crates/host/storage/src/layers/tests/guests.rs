//! Guests that boot too slowly.

use super::*;

/// Makes a guest and the server of its disk on a host where this many boots are too slow. Returns the error or the
/// notes, and what was started, in order.
fn boot(silent: u32) -> (Result<Vec<String>, String>, Vec<String>) {
    let world = World::new();
    world.silent.set(silent);
    let maker = world.maker();
    let wanted = request(plain(vec![directory(&world)]));
    let own = Owner {
        pid: std::process::id(),
        ..DEAD
    };
    let header = Header::new(TOKEN, "a", "one".to_owned(), own, wanted.provision.clone());
    let journal = Journal::begin(&maker.folders.journals, header, &world).unwrap();
    let guard = maker.guard(&[]);
    let mut making = maker.making(&guard, journal, &wanted);
    let folder = making.mount_point("0-0").unwrap();
    let pinning = Pinning::default();
    let disk = world.host.path("data/mine");
    let server = "fsd {socket} {file}";
    let socket = folder.join("disk0");
    making
        .serve_socket(server, &pinning, &socket, ("{file}", &disk))
        .unwrap();
    making
        .step(Action::Server {
            command: vec!["qemu".to_owned()],
            log: folder.join("qemu.log"),
            point: folder.clone(),
        })
        .unwrap();
    let mark = making.ops.mark.clone();
    let vm = VmLayer {
        boot_timeout_ns: Some(1_500_000_000),
        ..VmLayer::default()
    };
    let booted = making.await_boot(&vm, 1, "guest1", None, &folder, &mark);
    assert_eq!(
        (world.marked(&mark).len(), world.processes.borrow().len()),
        (1, 2)
    );
    let first = |run: &CommandRun| run.command.split(' ').next().unwrap().to_owned();
    let started = making.ops.commands.iter().map(first).collect();
    let end = booted.map(|_| making.notes.clone());
    (
        end.map_err(|fault| format!("{}: {}", fault.message, fault.hint.unwrap())),
        started,
    )
}

#[test]
fn a_guest_that_boots_too_slowly_is_started_again_twice_with_its_servers() {
    let (end, started) = boot(0);
    assert_eq!((end, started.len()), (Ok(Vec::new()), 2));
    let (end, started) = boot(1);
    let note = "guest1 did not boot within 1.5 s, and was started again";
    assert_eq!(end, Ok(vec![note.to_owned()]));
    assert_eq!(started, ["fsd", "qemu", "fsd", "qemu"]);
    let (end, started) = boot(3);
    assert_eq!(started.len(), 6);
    let error = "cannot boot a guest: the guest did not answer within 1.5 s: guest1 was started 3 times; \
                 raise `vm.boot_timeout`, or lower `vm.guests`";
    assert_eq!(end, Err(error.to_owned()));
}
