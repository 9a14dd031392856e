"""TrainJob: the API, and that of the runtimes that TrainJobs refer to."""
