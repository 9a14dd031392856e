"""``traincrew run --output``: saves what pods wrote, and reports what is discarded."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import byte_size, plain
from traincrew.cli.errors import BadInput
from traincrew.cli.run.additions import container_path, is_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.cli.run.additions import Volume
    from traincrew.cli.run.kept import Kept
    from traincrew.local.node import ClaimContents, Collected, Written

_PATHS_SHOWN = 3


class Output(NamedTuple):
    """A directory for results.

    Attributes:
        directory: An absolute path on this machine.
        path: The path in containers; empty for all PersistentVolumeClaims.
        text: The option as given.
    """

    directory: Path
    path: str
    text: str


class OutputOption(click.ParamType[Output]):
    """A directory for results, written ``DIR`` or ``DIR:/path/in/pod``."""

    name = "output"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Output:
        """Parse an output; click reports errors."""
        text = str(value)
        directory, colon, path = text.partition(":")
        try:
            path = container_path(path) if colon else ""
        except ValueError as error:
            self.fail(f"{text!r}: {error}", param, ctx)
        if not directory:
            self.fail(f"{text!r} has no directory; write for example results:/result", param, ctx)
        place = Path(directory).expanduser().absolute()
        try:
            unusable = place.exists() and not place.is_dir()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self.fail(f"{text!r}: cannot use {place}: {reason}", param, ctx)
        if unusable:
            self.fail(f"{text!r}: {place} is not a directory: name another one", param, ctx)
        return Output(place, path, text)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click calls it so
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete the part on this machine as a directory."""
        return [] if ":" in incomplete else [CompletionItem(incomplete, type="dir")]


def require_separate(outputs: Sequence[Output], volumes: Sequence[Volume]) -> None:
    """Check that every output has a directory of its own and something to save.

    Raises:
        BadInput: A conflict; the message has the option and the fix.
    """
    by_directory: dict[Path, Output] = {}
    by_path: dict[str, Output] = {}
    for output in outputs:
        same = by_directory.setdefault(output.directory, output)
        if same is not output:
            raise BadInput(
                f"--output {same.text} and --output {output.text}: both are for "
                f"{output.directory}; name a directory for each"
            )
        same = by_path.setdefault(output.path, output)
        if same is not output:
            what = output.path or "all PersistentVolumeClaims"
            raise BadInput(
                f"--output {same.text} and --output {output.text}: both save {what}; leave one out"
            )
        for volume in volumes:
            if output.path and is_within(output.path, volume.target):
                raise BadInput(
                    f"--output {output.text}: -v {volume.text} puts {output.path} on this machine "
                    "already: leave one of the two out"
                )


class Results:
    """The results of one run.

    Args:
        outputs: Their directories.
        namespace: The namespace whose claims have plain names in the output directory.
        kept: Keeps the rest for a day; None if the rest is discarded.
    """

    def __init__(self, outputs: Sequence[Output], namespace: str, kept: Kept | None = None) -> None:
        self.namespace = namespace
        self._kept = kept
        self._finished = False
        self.problem = False
        """Whether saving failed for any file."""
        self._paths = [output for output in outputs if output.path]
        self._claims = next((output for output in outputs if not output.path), None)
        self._staging = {
            output.path: output.directory / f".traincrew-{secrets.token_hex(4)}"
            for output in self._paths
        }

    @property
    def claims(self) -> Path | None:
        """Directory in which the cluster stores claims, if they are to be kept."""
        return None if self._claims is None else self._claims.directory

    @property
    def collect(self) -> tuple[tuple[str, Path], ...]:
        """Paths in containers, and the staging directories that they are copied to."""
        return tuple(self._staging.items())

    @property
    def keep(self) -> Path | None:
        """Where everything else is kept for a day; None if it is not."""
        return None if self._kept is None else self._kept.directory

    @property
    def warning(self) -> str:
        """What to know before the pods write something; empty if options save some of it."""
        if self._paths or self._claims is not None:
            return ""
        how = "kept for a day" if self._kept is not None else "discarded at the end"
        return f"files that pods write are {how}; to save them: --output DIR:/path"

    def prepare(self) -> None:
        """Create the directories.

        Raises:
            BadInput: A directory cannot be created or written.
        """
        for output in (*self._paths, *([self._claims] if self._claims else [])):
            try:
                output.directory.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=output.directory).close()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise BadInput(
                    f"--output {output.text}: cannot write to {output.directory}: {reason}"
                ) from error
        if self._kept is not None and not self._kept.prepare():
            self._kept = None

    def require_own_files(self, *, namespaces: bool) -> None:
        """Check that pods have a file system of their own, from which a path can be saved.

        Raises:
            BadInput: Pods are plain processes.
        """
        if self._paths and not namespaces:
            raise BadInput(
                f"--output {self._paths[0].text}: pods are plain processes on this machine, so "
                f"{self._paths[0].path} is the machine's own: leave the option out and look there "
                "(`traincrew doctor` says what would give pods files of their own)"
            )

    def remove(self) -> None:
        """Remove the staging directories, and that for what is kept if nothing is."""
        if self._kept is not None and not self._finished:
            self._kept.finish(0, 0)
        for place in self._staging.values():
            shutil.rmtree(place, ignore_errors=True)

    def lines(self, written: Sequence[Written], claims: Sequence[ClaimContents]) -> list[Line]:
        """Move the collected files to their directories; report what is saved and discarded."""
        lines = [line for output in self._paths for line in self._save(output, written)]
        if self._claims is not None:
            lines += [
                Line(f"Saved in {_shown(claim.directory)}: {_counted(claim)} "
                     f"(PersistentVolumeClaim {claim.name})")
                for claim in claims
            ]  # fmt: skip
            if not claims:
                lines.append(Line(f"--output {self._claims.text}: no pod used a claim", "bad"))
        claims = [] if self._claims is not None else [each for each in claims if each.files]
        kept = self._keep(written, claims)
        parts, keep = self._rest(written, claims)
        if parts:
            what, options = "; ".join(parts), ", ".join(keep)
            if self._kept is not None and kept:
                also = "" if kept == "all" else " (not all of it: it is too much)"
                lines.append(Line(f"Kept for a day{also} in {self._kept.directory}: {what}."
                                  f" To save that yourself: {options}"))  # fmt: skip
            else:
                lines.append(Line(f"Discarded: {what}. To keep that: {options}"))
        return lines

    def _keep(self, written: Sequence[Written], claims: Sequence[ClaimContents]) -> str:
        """Keep what is not saved; return ``all`` or ``some`` if anything is, else nothing."""
        if self._kept is None:
            return ""
        copies = [
            copy
            for report in written
            for copy in report.collected
            if Path(copy.to).is_relative_to(self._kept.directory)
        ]
        moved = self._kept.keep_claims(claims)
        files = sum(copy.files for copy in copies) + sum(claim.files for claim in moved)
        size = sum(copy.bytes for copy in copies) + sum(claim.bytes for claim in moved)
        self._kept.finish(files, size)
        self._finished = True
        complete = len(moved) == len(claims) and not any(copy.problem for copy in copies)
        return "" if not files else "all" if complete else "some"

    def _save(self, output: Output, written: Sequence[Written]) -> Iterable[Line]:
        latest: dict[tuple[str, str, str], Collected] = {}
        problems: dict[str, None] = {}
        for report in written:
            for collected in report.collected:
                if collected.path == output.path:
                    if collected.problem:
                        problems[f"{report.container[1]}: {collected.problem}"] = None
                    if collected.files:
                        latest[report.container] = collected
        saved = files = size = 0
        for container, collected in latest.items():
            place = output.directory / _subdirectory(container, list(latest))
            try:
                _move(Path(collected.to), place)
            except OSError as error:
                problems[f"{error.filename}: {error.strerror}"] = None
            else:
                saved, files, size = saved + 1, files + collected.files, size + collected.bytes
        if saved:
            pods = {container[:2] for container in latest}
            of = f"pod {next(iter(pods))[1]}" if len(pods) == 1 else f"{len(pods)} pods"
            how = f"{_number(files)}, {byte_size(size)}"
            yield Line(f"Saved in {_shown(output.directory)}: {how} ({output.path} of {of})")
        elif not problems:
            yield Line(f"--output {output.text}: no pod wrote anything to {output.path}", "bad")
        for problem in problems:
            self.problem = True
            yield Line(f"--output {output.text}: not everything is saved: {plain(problem)}", "bad")

    def _rest(
        self, written: Sequence[Written], claims: Sequence[ClaimContents]
    ) -> tuple[list[str], list[str]]:
        """Return what no option saves, and the options that would have saved it."""
        paths: dict[str, list[int]] = {}
        pods: dict[str, set[str]] = {}
        complete = True
        for report in written:
            complete = complete and report.complete
            for path, files, size in report.paths:
                if any(is_within(path, output.path) for output in self._paths):
                    continue
                count = paths.setdefault(path, [0, 0])
                count[0] += files
                count[1] += size
                pods.setdefault(path, set()).add(report.container[1])
        parts, keep = [], []
        if paths:
            largest = sorted(paths, key=lambda path: paths[path][1], reverse=True)
            named = [plain(path) for path in largest[:_PATHS_SHOWN]]
            if len(largest) > _PATHS_SHOWN:
                named.append("…")
            files, size = (sum(count[index] for count in paths.values()) for index in (0, 1))
            who = set().union(*pods.values())
            of = f"pod {next(iter(who))}" if len(who) == 1 else f"{len(who)} pods"
            more = "" if complete else "more than "
            parts.append(
                f"{more}{_number(files)}, {byte_size(size)}, outside volumes "
                f"({', '.join(named)} of {of})"
            )
            keep.append(f"--output DIR:{plain(largest[0])}")
        parts += [f"PersistentVolumeClaim {claim.name}: {_counted(claim)}" for claim in claims]
        if claims:
            keep.append("--output DIR")
        return parts, keep


def _subdirectory(container: tuple[str, str, str], others: Sequence[tuple[str, str, str]]) -> Path:
    """Return the subdirectory of one container if several wrote to the same path."""
    namespace, pod, name = container
    if len(others) == 1:
        return Path()
    pods = {other[:2] for other in others}
    same_name = sum(other == pod for _, other in pods) > 1
    place = Path(f"{pod}@{namespace}" if same_name else pod)
    alone = sum(other[:2] == (namespace, pod) for other in others) == 1
    return place if alone or len(pods) == 1 else place / name


def _move(source: Path, target: Path) -> None:
    """Move files into a directory, replacing files of the same name, without following links.

    Raises:
        OSError: A file cannot be written, or a directory has its name.
    """
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            # Pods of an earlier run may have left a link that points out of the directory.
            try:
                if not stat.S_ISDIR(place.lstat().st_mode):
                    place.unlink()
            except FileNotFoundError:
                pass
            _move(Path(entry.path), place)
        else:
            Path(entry.path).replace(place)


def _counted(claim: ClaimContents) -> str:
    more = "" if claim.complete else "more than "
    return f"{more}{_number(claim.files)}, {byte_size(claim.bytes)}"


def _number(files: int) -> str:
    return f"{files} file" + ("" if files == 1 else "s")


def _shown(directory: Path) -> str:
    """Return the path relative to the working directory, if it is below it."""
    try:
        return str(directory.relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return str(directory)
