"""DaemonSets: `plan` and what it uses decide, `controller` reads and writes."""
