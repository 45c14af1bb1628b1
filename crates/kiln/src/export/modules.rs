//! Names of Python's own modules and of those that PyTorch imports: a folder of that name beside a program hides them.

/// Whether a module of the name breaks programs beside it.
pub fn is_taken(name: &str) -> bool {
    TAKEN.binary_search(&name).is_ok()
}

/// `sys.stdlib_module_names` of Python 3.11 with what 3.8 had and 3.14 has, PyTorch and what it needs. Sorted.
#[rustfmt::skip]
const TAKEN: &[&str] = &[
    "abc", "aifc", "annotationlib", "antigravity", "argparse", "array", "ast", "asynchat", "asyncio", "asyncore",
    "atexit", "audioop", "base64", "bdb", "binascii", "bisect", "builtins", "bz2", "cProfile", "calendar", "cgi",
    "cgitb", "chunk", "cmath", "cmd", "code", "codecs", "codeop", "collections", "colorsys", "compileall",
    "compression", "concurrent", "configparser", "contextlib", "contextvars", "copy", "copyreg", "crypt", "csv",
    "ctypes", "curses", "dataclasses", "datetime", "dbm", "decimal", "difflib", "dis", "distutils", "doctest",
    "email", "encodings", "ensurepip", "enum", "errno", "faulthandler", "fcntl", "filecmp", "fileinput",
    "filelock", "fnmatch", "fractions", "fsspec", "ftplib", "functools", "functorch", "gc", "genericpath",
    "getopt", "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib", "heapq", "hmac", "html", "http",
    "idlelib", "imaplib", "imghdr", "imp", "importlib", "inspect", "io", "ipaddress", "itertools", "jinja2",
    "json", "keyword", "kiln", "lib2to3", "linecache", "locale", "logging", "lzma", "mailbox", "mailcap",
    "markupsafe", "marshal", "math", "mimetypes", "mmap", "modulefinder", "mpmath", "msilib", "msvcrt",
    "multiprocessing", "netrc", "networkx", "nis", "nntplib", "nt", "ntpath", "nturl2path", "numbers", "numpy",
    "opcode", "operator", "optparse", "os", "ossaudiodev", "pathlib", "pdb", "pickle", "pickletools", "pip",
    "pipes", "pkg_resources", "pkgutil", "platform", "plistlib", "poplib", "posix", "posixpath", "pprint",
    "profile", "pstats", "pty", "pwd", "py_compile", "pyclbr", "pydoc", "pydoc_data", "pyexpat", "pytest", "queue",
    "quopri", "random", "re", "readline", "reprlib", "resource", "rlcompleter", "runpy", "sched", "secrets",
    "select", "selectors", "setuptools", "shelve", "shlex", "shutil", "signal", "site", "smtpd", "smtplib",
    "sndhdr", "socket", "socketserver", "spwd", "sqlite3", "sre_compile", "sre_constants", "sre_parse", "ssl",
    "stat", "statistics", "string", "stringprep", "struct", "subprocess", "sunau", "sympy", "symtable", "sys",
    "sysconfig", "syslog", "tabnanny", "tarfile", "telnetlib", "tempfile", "termios", "test", "textwrap", "this",
    "threading", "time", "timeit", "tkinter", "token", "tokenize", "tomllib", "torch", "torchgen", "trace",
    "traceback", "tracemalloc", "triton", "tty", "turtle", "turtledemo", "types", "typing", "typing_extensions",
    "unicodedata", "unittest", "urllib", "uu", "uuid", "venv", "warnings", "wave", "weakref", "webbrowser",
    "winreg", "winsound", "wsgiref", "xdrlib", "xml", "xmlrpc", "zipapp", "zipfile", "zipimport", "zlib",
    "zoneinfo",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found() {
        assert!(TAKEN.is_sorted());
        for name in [
            "copy", "json", "random", "torch", "numpy", "abc", "zoneinfo",
        ] {
            assert!(is_taken(name), "{name}");
        }
        assert!(!is_taken("attention"));
    }
}
