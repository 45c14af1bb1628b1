//! Who is let in, by what a request says of itself.

/// Who is let in.
#[derive(Clone)]
pub struct Door {
    pub port: u16,
    pub token: String,
}

/// What a request says that matters here.
pub struct Asked<'a> {
    pub is_get: bool,
    pub path: &'a str,
    pub hosts: Vec<&'a str>,
    pub origins: Vec<&'a str>,
}

impl Door {
    /// The status of a refusal; nothing for who may come in.
    pub fn refuses(&self, asked: &Asked) -> Option<u16> {
        let names = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        // A name that was made to point here is not ours: the page it came from is somebody else's.
        let is_ours = matches!(asked.hosts.as_slice(), [host] if names.iter().any(|n| n == host));
        let is_stranger = asked.origins.iter().any(|origin| {
            let mut ours = names.iter().map(|name| format!("http://{name}"));
            !ours.any(|name| name == *origin)
        });
        if !is_ours || is_stranger {
            return Some(403);
        }
        if !same(asked.path, &format!("/{}/", self.token)) {
            return Some(404);
        }
        (!asked.is_get).then_some(405)
    }
}

/// Takes the same time wherever they differ.
fn same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_address_is_let_in() {
        let door = Door {
            port: 8000,
            token: "abc".into(),
        };
        let asked = |host: &'static str, path: &'static str, origin: Option<&'static str>| Asked {
            is_get: true,
            path,
            hosts: vec![host],
            origins: origin.into_iter().collect(),
        };
        let refused = |asked: Asked| door.refuses(&asked);
        assert_eq!(refused(asked("127.0.0.1:8000", "/abc/", None)), None);
        let own = Some("http://localhost:8000");
        assert_eq!(refused(asked("localhost:8000", "/abc/", own)), None);
        for host in [
            "127.0.0.1",
            "127.0.0.1:8001",
            "evil.example:8000",
            "localhost",
            "",
        ] {
            assert_eq!(refused(asked(host, "/abc/", None)), Some(403), "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1:8000",
            "http://127.0.0.1",
        ] {
            let asked = asked("127.0.0.1:8000", "/abc/", Some(origin));
            assert_eq!(refused(asked), Some(403), "{origin}");
        }
        for path in ["/", "/abd/", "/abc", "/abc/x", "/ABC/", "/abc/?", ""] {
            let asked = asked("127.0.0.1:8000", path, None);
            assert_eq!(refused(asked), Some(404), "{path}");
        }
        let mut twice = asked("127.0.0.1:8000", "/abc/", None);
        twice.hosts.push("evil.example");
        assert_eq!(refused(twice), Some(403));
        let mut two = asked("127.0.0.1:8000", "/abc/", own);
        two.origins.push("http://evil.example");
        assert_eq!(refused(two), Some(403));
        let mut post = asked("127.0.0.1:8000", "/abc/", None);
        post.is_get = false;
        assert_eq!(refused(post), Some(405));
    }
}
