//! Broken manifests by the thousand: never a panic, always a message that can be shown.
