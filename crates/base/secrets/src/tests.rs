use serde_json::json;

use super::*;

#[test]
fn secrets_are_masked_and_other_text_is_not() {
    for (text, expected) in [
        (
            "mount -o user=a,password=hunter2,ro x",
            "mount -o user=a,password=*****,ro x",
        ),
        (
            "tool --password hunter2 --fast",
            "tool --password ***** --fast",
        ),
        ("tool --db-password=hunter2", "tool --db-password=*****"),
        ("tool --api_key 'a b' c", "tool --api_key '*****' c"),
        ("PGPASSWORD=x psql", "PGPASSWORD=***** psql"),
        (
            "AWS_SECRET_ACCESS_KEY=abc/def aws s3",
            "AWS_SECRET_ACCESS_KEY=***** aws s3",
        ),
        ("AWS_SESSION_TOKEN: abc", "AWS_SESSION_TOKEN: *****"),
        ("id AKIAIOSFODNN7EXAMPLE here", "id ***** here"),
        (
            "push https://me:s3cr:et@host/x",
            "push https://me:*****@host/x",
        ),
        ("nbd://u:p@h?x", "nbd://u:*****@h?x"),
        (
            "{\"token\":\"abc\",\"n\":1}",
            "{\"token\":\"*****\",\"n\":1}",
        ),
        (
            "env = { PASSWORD = \"a b\" }",
            "env = { PASSWORD = \"*****\" }",
        ),
        ("https://h/?token=abc&x=1", "https://h/?token=*****&x=1"),
        (
            "git clone https://github_pat_11AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@h/x",
            "git clone https://*****@h/x",
        ),
        (
            "HTTP_AUTH=X PROXY_CREDENTIAL=X",
            "HTTP_AUTH=***** PROXY_CREDENTIAL=*****",
        ),
        (
            "AWS_CREDENTIALS_V2=X bearer=X",
            "AWS_CREDENTIALS_V2=***** bearer=*****",
        ),
        ("t --auth X --fast", "t --auth ***** --fast"),
        ("-H 'X-Auth: Bearer a.b/c' -v", "-H 'X-Auth: *****' -v"),
        ("key password = öffnen", "key password = *****"),
        (
            "curl -H 'Authorization: Bearer a.b' h",
            "curl -H 'Authorization: *****' h",
        ),
        ("PASS=x DB_PWD=y z", "PASS=***** DB_PWD=***** z"),
        (
            "PWD=/mnt/a OLDPWD=/b PWD=x",
            "PWD=/mnt/a OLDPWD=/b PWD=*****",
        ),
        ("UID=sa;PWD=/x;DSN=d", "UID=sa;PWD=*****;DSN=d"),
        ("t --password=\"a\\\"b\" c", "t --password=\"*****\" c"),
        ("t --password='a'\"b c\"d e", "t --password=***** e"),
        ("t --password=a\\ b c", "t --password=***** c"),
        ("t password='a", "t password='*****"),
        (
            "echo \"{\\\"password\\\": \\\"a b\\\"}\"",
            "echo \"{\\\"password\\\": \\\"*****\\\"}\"",
        ),
        ("mysql -uroot -pX db", "mysql -uroot -p***** db"),
        (
            "/usr/bin/mysqldump -p'a b' db",
            "/usr/bin/mysqldump -p***** db",
        ),
        (
            r"/bin/sh -c 'mysql -p'\''a b'\'' db' x",
            r"/bin/sh -c 'mysql -p***** db' x",
        ),
        (
            r"/bin/sh -c 't '\''--password=a b c'\'' d'",
            r"/bin/sh -c 't '\''--password=***** b c'\'' d'",
        ),
        (
            r"/bin/sh -c 'PASS='\''a b'\''; API_TOKEN='\''c d'\'' t'",
            r"/bin/sh -c 'PASS='\''*****'\''; API_TOKEN='\''*****'\'' t'",
        ),
        (
            r"sh -c 'sh -c '\''mysql -p'\''\'\'''\''a b'\''\'\'''\'' db'\'''",
            r"sh -c 'sh -c '\''mysql -p***** db'\'''",
        ),
        ("exec_prerun=mysql -pX db", "exec_prerun=mysql -p***** db"),
        ("sh -c \"mysql -pX\" y", "sh -c \"mysql -p*****\" y"),
        (
            "sshpass -p X ssh -p 22 h",
            "sshpass -p ***** ssh -p ***** h",
        ),
        ("sshpass -pX ssh h", "sshpass -p***** ssh h"),
        ("true; curl -u a:b h", "true; curl -u ***** h"),
        (
            "sh -c \"t --password=a b\" \"c\"",
            "sh -c \"t --password=***** b\" \"c\"",
        ),
        ("t --password=a'b c'd e", "t --password=***** e"),
        (
            "docker run -p 80:80 x; docker login -p X r",
            "docker run -p 80:80 x; docker login -p ***** r",
        ),
        ("curl -ua:b h", "curl -u***** h"),
        ("curl -sSu a:b h", "curl -sSu ***** h"),
        ("curl -#sua:b h", "curl -#su***** h"),
        ("curl -ksSu'a:b c' h", "curl -ksSu***** h"),
        ("zip -r9PX a b", "zip -r9P***** a b"),
        ("smbclient -NUa%b //h/s", "smbclient -NU***** //h/s"),
        ("mysql -NBpX db", "mysql -NBp***** db"),
        ("ldapsearch -xZwX -b c", "ldapsearch -xZw***** -b c"),
        ("sshpass -vpX ssh h", "sshpass -vp***** ssh h"),
        ("http_s3_key=X", "http_s3_key=*****"),
        (
            "http_s3_sse_customer_key=X",
            "http_s3_sse_customer_key=*****",
        ),
        ("curl --user=a:b h", "curl --user=***** h"),
        ("curl --proxy-user 'a:b c' h", "curl --proxy-user ***** h"),
        ("redis-cli -a X ping", "redis-cli -a ***** ping"),
        ("t --password\tX y", "t --password\t***** y"),
        ("t --password \\\n  X y", "t --password \\\n  ***** y"),
        ("openssl enc -k X -in f", "openssl enc -k ***** -in f"),
        ("mysqlpump -pX db", "mysqlpump -p***** db"),
        ("unrar x -pX f", "unrar x -p***** f"),
        ("mosquitto_pub -P X -t t", "mosquitto_pub -P ***** -t t"),
        ("cryptsetup open --key X d", "cryptsetup open --key ***** d"),
        ("t --pw X --fast", "t --pw ***** --fast"),
        ("h/?X-Amz-Signature=X&a=b", "h/?X-Amz-Signature=*****&a=b"),
        (
            "nvme connect -a 1.2.3.4 -S DHHC-1:00:X: -n n",
            "nvme connect -a 1.2.3.4 -S ***** -n n",
        ),
        ("ldapsearch -w X -b c", "ldapsearch -w ***** -b c"),
        ("openssl rsa -passin pass:X", "openssl rsa -passin *****"),
        (
            "SECRET_KEY=x SECRET_KEY_BASE=y",
            "SECRET_KEY=***** SECRET_KEY_BASE=*****",
        ),
        (
            "SSHPASS=x sshpass -e ssh h",
            "SSHPASS=***** sshpass -e ssh h",
        ),
        (
            "AccountName=a;AccountKey=b==;x",
            "AccountName=a;AccountKey=*****;x",
        ),
        (
            "https://h/?sv=1&sig=a%2B&x=1",
            "https://h/?sv=1&sig=*****&x=1",
        ),
        ("curl -H 'Cookie: a=b' h", "curl -H 'Cookie: *****' h"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----*****-----END RSA PRIVATE KEY-----",
        ),
    ] {
        assert_eq!(masked(text), expected, "{text}");
        assert_eq!(masked(expected), expected, "{text}: again");
    }
    for text in [
        "iodyno run --on token-ring=/mnt/token",
        "passes=3 bypass tokens=4 compass",
        "http://host:80/x@y",
        "ssh://me@host:22",
        "rw=randread,bs=4k,bypass=1",
        "password",
        "",
        "AKIA",
        "mysql -p db; ssh -p 22 h",
        "mkdir -p /srv/mysql && ls -p",
        "--password-file=/x secret_path=/y key_file=/z credential_file=/z",
        "author=ada authority=x auth_type=y forbearance=z authors: a",
        "server --auth --port 5",
        "fio --design=a signal=9 cosig=1",
        "task-id sk-12",
        "openssl req -key server.key -keyout k",
        "cryptsetup open --key-file=/x d",
        "curl -sXPUT -ofoo-u -HUser:b h; 7z -spf a; mysql -uapp -hpg",
        "http_s3_keyid=a",
    ] {
        assert_eq!(masked(text), text);
    }
}

/// Texts of others can be long. With work for each pair of places, each of these would take minutes; quotes that
/// are followed without a limit would need more stack than there is.
#[test]
fn each_place_of_a_long_text_is_read_a_few_times_only() {
    let key = "-----BEGIN PRIVATE KEY-----\n";
    for (part, end, expected) in [
        ("mysql ", "-pX", "mysql -p*****".to_owned()),
        ("eyJ-", " b", "***** b".to_owned()),
        ("eyJ", " b", "***** b".to_owned()),
        ("password=X ", "b", "password=***** b".to_owned()),
        (key, "b", format!("{}*****", key.trim_end())),
        ("PRIVATE KEY-----", "b", "PRIVATE KEY-----b".to_owned()),
        // Deeper than [`MAX_QUOTES`].
        ("\"'", "mysql -pX", "\"'mysql -pX".to_owned()),
    ] {
        let long = part.repeat((1 << 19) / part.len()) + end;
        let done = masked(&long);
        let seen = done.char_indices().rev().nth(40).map_or(0, |(at, _)| at);
        assert!(done.ends_with(&expected), "{part}: {}", &done[seen..]);
    }
}

#[test]
fn documents_are_masked_by_names_and_by_words() {
    let mut document = json!({
        "env": { "PASSWORD": "x y", "PWD": "/root", "TOKEN": "" },
        "command": ["tool", "--password", "x", "--token=y", "-v"],
        "n": 1, "list": [{ "url": "a://b:c@d" }, 2],
        "facts": [{ "class": "workload", "name": "http_pass", "value": "x" }, { "name": "bs", "value": "x" }],
    });
    mask(&mut document);
    assert_eq!(
        document,
        json!({
            "env": { "PASSWORD": MASK, "PWD": "/root", "TOKEN": "" },
            "command": ["tool", "--password", MASK, "--token=*****", "-v"],
            "n": 1, "list": [{ "url": "a://b:*****@d" }, 2],
            "facts": [{ "class": "workload", "name": "http_pass", "value": MASK }, { "name": "bs", "value": "x" }],
        })
    );
}

#[test]
fn values_without_a_name_are_masked_once_they_are_known() {
    let values = ["q7Xw98dk", "a/\"\u{e4}z9", "no"].map(str::to_owned);
    let text = "true q7Xw98dk -pq7Xw98dkm 'a/\"\u{e4}z9' no";
    assert_eq!(masked(text), text);
    mask_values(values.into_iter());
    assert_eq!(masked(text), "true ***** -p*****m '*****' no");
    mask_values(std::iter::once("second0".to_owned()));
    assert_eq!(masked("q7Xw98dk second0"), "***** *****");
}
