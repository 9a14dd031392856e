"""Messages about failed containers."""

import pytest

from traincrew.plan.shared.pods import hides_cause, termination_text

TORCHRUN = """\
  File "train.py", line 2, in train
ValueError: shapes (3, 4) and (5,) do not match
E1122 09:42:39.669000 1 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1)
Traceback (most recent call last):
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
  exitcode  : 1 (pid: 26)
============================================================
"""

EPILOGUE = """\
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpiexec detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[51546,1],0]
  Exit code:    1
--------------------------------------------------------------------------
"""
NOT_STARTED = """\
Error from server (NotFound): pods "play-worker-7" not found
--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:

* not finding the required libraries and/or binaries on
  one or more nodes. Please check your PATH and LD_LIBRARY_PATH
  settings, or configure OMPI with --enable-orterun-prefix-by-default
--------------------------------------------------------------------------
--------------------------------------------------------------------------
ORTE does not know how to route a message to the specified daemon
located on the indicated node:
--------------------------------------------------------------------------
"""
MPIEXEC = """\
Traceback (most recent call last):
chainer.utils.type_check.InvalidType: see above
cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 4096 bytes
"""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("boom", "boom"),
        ("boom\n", "boom"),
        ("no data at /data\nmount the volume", "no data at /data mount the volume"),
        (TORCHRUN, "ValueError: shapes (3, 4) and (5,) do not match"),
        (
            MPIEXEC + EPILOGUE,
            "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 4096 bytes",
        ),
        (f"training\nno data in /data\n{EPILOGUE}", "training no data in /data"),
        (NOT_STARTED, 'Error from server (NotFound): pods "play-worker-7" not found'),
        ("[1,0]<stderr>:ValueError: no\n[1,1]<stdout>: bye", "[1,0]<stderr>:ValueError: no"),
        ("[rank1]: KeyError: 'x'\nfailed", "[rank1]: KeyError: 'x'"),
        ("epoch 1\nepoch 2\nepoch 3\n-----\nKilled\n\n", "epoch 2 epoch 3 Killed"),
        ("LR: 0.1\nError: 3 files missing", "LR: 0.1 Error: 3 files missing"),
        ("hello\nno data\nbye\nno data\nno data", "hello bye no data"),
        ("[1,0]<stderr>:no data\n[1,1]<stderr>:no data", "[1,1]<stderr>:no data"),
        ("=====\n", ""),
        ("Error on reading termination message from logs: failed to try resolving symlinks", ""),
        ("Error on reading termination log /var/lib/kubelet/pods/x: permission denied", ""),
    ],
)
def test_termination_text(message: str, shown: str) -> None:
    assert termination_text(message) == shown


def test_nothing_but_the_epilogue_of_mpiexec() -> None:
    assert termination_text(EPILOGUE).endswith("Process name: [[51546,1],0] Exit code:    1")


LAUNCHER = """\
Traceback (most recent call last):
  File "/opt/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/lib/torch/distributed/launcher/api.py", line 288, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_09:42:39
  host      : flowers-worker-0
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 26)
  error_file: {file}
  traceback : {traceback}
============================================================
"""
SEE = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
NO_WORDS = LAUNCHER.format(code=1, file="<N/A>", traceback=SEE)
KILLED = LAUNCHER.format(code=-9, file="<N/A>", traceback="Signal 9 (SIGKILL) received by PID 26")
RECORDED = LAUNCHER.format(
    code=1,
    file="/tmp/torchelastic_x/error.json",
    traceback="Traceback (most recent call last):\n    ValueError: my dataset is broken",
)
ANOTHER = "[rank0]: ConnectionError: closed by peer\n"
PROGRAM = "Traceback (most recent call last):\n[rank1]: ValueError: my dataset is broken\n"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (PROGRAM + NO_WORDS, "ValueError: my dataset is broken (rank 1, exit code 1)"),
        (PROGRAM + ANOTHER + NO_WORDS, "ValueError: my dataset is broken (rank 1, exit code 1)"),
        (RECORDED, "ValueError: my dataset is broken (rank 1, exit code 1)"),
        (NO_WORDS, "rank 1 failed with exit code 1"),
        (KILLED, "rank 1 was ended by signal 9 (SIGKILL)"),
    ],
)
def test_the_output_of_a_program_launched_by_torchrun(message: str, shown: str) -> None:
    assert termination_text(message) == shown


@pytest.mark.parametrize(
    ("message", "hidden"),
    [
        (NO_WORDS, True),
        (PROGRAM + NO_WORDS, False),
        (RECORDED, False),
        (KILLED, False),
        (EPILOGUE, True),
        (MPIEXEC + EPILOGUE, False),
        ("", False),
        ("boom", False),
        ("Error on reading termination message from logs: failed to try resolving symlinks", False),
    ],
)
def test_when_a_log_has_to_be_read(message: str, hidden: bool) -> None:
    assert hides_cause(message) is hidden
