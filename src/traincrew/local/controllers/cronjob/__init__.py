"""CronJobs: `plan` and `due` decide, `controller` reads and writes."""
