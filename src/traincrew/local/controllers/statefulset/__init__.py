"""The StatefulSet controller: `plan` decides, `controller` reads and writes."""
