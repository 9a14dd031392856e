"""The Job controller: `plan` decides, `controller` reads and writes."""
