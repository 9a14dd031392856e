"""Images of other builders run as they do elsewhere: as root, and as nobody.

None of our own code made them: buildah builds them from Dockerfiles, and podman writes archives.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from suites.container_images.pods import SECONDS, Cluster
from suites.container_images.users import user_named

from local.images.oci.packing import Layer, config_of, digest, directory, entry, symlink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUSYBOX = shutil.which("busybox", path="/bin:/usr/bin")
NEEDED = [name for name in ("buildah", "podman", "cc") if shutil.which(name) is None]
if BUSYBOX is None:
    NEEDED.append("busybox-static")
if os.geteuid() != 0:
    NEEDED.append("root, who may become nobody")
if NEEDED and os.environ.get("TRAINCREW_REQUIRE_REAL_CLUSTER"):
    raise RuntimeError(f"needs: {', '.join(NEEDED)}")
pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"needs: {', '.join(NEEDED)}")

PROGRAM = """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    printf("static %s uid=%d files=%d\\n", words[1], (int)getuid(), access("/etc/passwd", F_OK));
    return count != 2;
}
"""
PASSWD = "root:x:0:0::/root:/bin/sh\ntrainer:x:1234:100::/srv/home:/bin/sh\n"
GROUP = "root:x:0:\nusers:x:100:\ndata:x:2000:trainer\n"
SEVERAL = """
echo $(id -u) $(id -G)
echo $(stat -c '%u' /srv/home/mine) $(stat -c '%u %g %a' /srv/home)
stat -c '%u %a' /bin/as-root
su trainer -c 'echo $(id -u) $(id -G)'
su trainer -c 'cat /srv/home/mine'
su trainer -c 'cat /several.sh > /etc/passwd' 2>/dev/null || echo refused
mkdir /work/theirs && echo x > /work/theirs/file && chown -R trainer:users /work/theirs
chmod 600 /work/theirs/file; chmod 700 /work/theirs
stat -c '%u:%g %a' /work/theirs/file
su trainer -c 'touch /work/theirs/mine; stat -c %u /work/theirs/mine'
"""
LAYERS = 60
BASE = """
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
COPY passwd group /etc/
"""
DOCKERFILES = {
    "user": BASE
    + """
RUN mkdir -p /srv/home && echo secret > /srv/home/mine && chown -R trainer:users /srv/home
RUN chmod 700 /srv/home
USER trainer
WORKDIR /srv/work
ENV WHO=nobody-else
ENTRYPOINT ["sh", "-c"]
CMD ["id -u; id -g; id -G; echo $HOME $WHO; pwd; cat /srv/home/mine"]
""",
    "several": BASE
    + """
RUN mkdir -p /srv/home && echo secret > /srv/home/mine && chown -R trainer:users /srv/home
RUN chmod 700 /srv/home && cp /bin/busybox /bin/as-root && chmod 4755 /bin/as-root
COPY several.sh /several.sh
CMD ["sh", "/several.sh"]
""",
    "volume": BASE
    + """
RUN mkdir /data && echo seed > /data/seed && chmod 1777 /data
VOLUME /data
CMD ["sh", "-c", "cat /data/seed; echo new > /data/new && ls /data; stat -c %a /data"]
""",
    "static": """
FROM scratch
COPY program /program
ENTRYPOINT ["/program"]
CMD ["default"]
""",
    # What buildah runs writes through the link; the last layer has whiteouts, one of a directory
    # that is made again.
    "links": """
FROM scratch
COPY busybox /usr/bin/busybox
RUN ["/usr/bin/busybox", "ln", "-s", "usr/bin", "/bin"]
RUN ["/usr/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p /opt/again /opt/gone && touch /opt/again/old /opt/gone/old /opt/file
RUN ln /opt/file /opt/hard
RUN cp /bin/busybox /bin/tool
RUN rm -r /opt/gone /opt/again /opt/file && mkdir /opt/again && touch /opt/again/new && rm /bin/vi
CMD ["sh", "-c", "readlink /bin; ls /opt /opt/again; ls /bin/tool; test -e /bin/vi || echo gone"]
""",
    "many": BASE
    + "".join(f"COPY group /many/{number}\n" for number in range(LAYERS - 4))
    + 'RUN rm /many/0\nCMD ["sh", "-c", "ls /many | wc -l; cat /many/* | sort -u | head -n 1"]\n',
}


def foreign(name: str) -> str:
    """Return the full name of an image."""
    return f"example.com/foreign/{name}:1"


class Builder:
    """buildah and podman with a storage of their own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._storage = ("--root", f"{place}/root", "--runroot", f"{place}/run")
        (place / "context").mkdir()
        files = {"passwd": PASSWD, "group": GROUP, "program.c": PROGRAM, "several.sh": SEVERAL}
        for name, text in files.items():
            (place / "context" / name).write_text(text)
        assert BUSYBOX is not None
        shutil.copy(BUSYBOX, place / "context" / "busybox")
        self._run("cc", "-static", "-o", "context/program", "context/program.c")

    def _run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [program, *words],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (program, words, done.stdout[-4000:])
        return str(done.stdout)

    def podman(self, *words: str) -> str:
        return self._run("podman", *self._storage, "--storage-driver", "overlay", *words)

    def build(self, name: str, dockerfile: str, compression: str) -> Path:
        """Build an image, a layer for each instruction; return its archive."""
        archive = self.place / f"{name}.tar"
        if not archive.exists():
            (self.place / "Dockerfile").write_text(dockerfile)
            tag = foreign(name)
            options = ("--isolation", "chroot", "--layers", "-t", tag, "-f", "Dockerfile")
            storage = (*self._storage, "--storage-driver", "overlay")
            self._run("buildah", *storage, "bud", *options, "context")
            target = f"oci-archive:{archive}:{tag}"
            self.podman("push", "-q", "--compression-format", compression, tag, target)
        return archive

    def close(self) -> None:
        self._run("buildah", *self._storage, "--storage-driver", "overlay", "rm", "--all")


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    builder = Builder(tmp_path_factory.mktemp("foreign"))
    try:
        yield builder
    finally:
        builder.close()


@pytest.fixture(scope="module", params=["root", "nobody", "mapped"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with user_named(request.param, "foreign") as user:
        cluster = Cluster(user)
        try:
            yield cluster
        finally:
            cluster.close()


def test_a_user_by_name(builder: Builder, cluster: Cluster) -> None:
    cluster.user.has(builder.build("user", DOCKERFILES["user"], "gzip"))
    uid, gid, groups, variables, directory, file = cluster.lines("user", foreign("user"))
    assert (uid, gid) == ("1234", "100")
    assert variables == "/srv/home nobody-else"
    assert (directory, file) == ("/srv/work", "secret")
    # Without root, a process that does not start as root cannot enter groups of its image.
    assert sorted(groups.split()) == (["100", "2000"] if cluster.user.is_root else ["100"])


def test_root_and_the_users_beside_it(builder: Builder, cluster: Cluster) -> None:
    """Root becomes others and gives them files; what they leave in volumes is removed."""
    cluster.user.has(builder.build("several", DOCKERFILES["several"], "gzip"))
    if cluster.user.is_nobody:
        assert cluster.lines("several", foreign("several"), command=["id", "-u"]) == ["0"]
        assert "one user" in cluster.kubectl("get", "events", "-o", "jsonpath={..message}")
        return
    mounts = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    pod = {"volumes": [{"name": "work", "emptyDir": {}}], "securityContext": {"fsGroup": 3000}}
    lines = cluster.lines("several", foreign("several"), pod=pod, **mounts)
    assert lines == [
        "0 0 3000", "1234 1234 100 700", "0 4755", "1234 100 2000", "secret", "refused",
        "1234:100 600", "1234",
    ]  # fmt: skip
    cluster.kubectl("delete", "pod", "several", "--wait")
    deadline = time.monotonic() + SECONDS
    while left := _directories_named("theirs", cluster.user.home):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _directories_named(name: str, place: Path) -> list[str]:
    """Return the directories of a name, while others may be removed."""
    return [f"{above}/{name}" for above, names, _ in os.walk(place) if name in names]


def test_commands_and_users_after_a_restart(builder: Builder, cluster: Cluster) -> None:
    cluster.user.has(builder.build("several", DOCKERFILES["several"], "gzip"))
    cluster.start(
        "stays", foreign("several"), command=["sh", "-c", "trap exit TERM; sleep 600 & wait"]
    )
    # A process of another user: what reads it has to be allowed to.
    become = "id -u" if cluster.user.is_nobody else "su trainer -c 'id -u'"
    for _ in range(2):
        said = cluster.kubectl("exec", "stays", "--", "sh", "-c", f"id -u; {become}").split()
        assert said == ["0", "0" if cluster.user.is_nobody else "1234"]
        cluster.user.traincrew("restart")
    cluster.kubectl("delete", "pod", "stays", "--wait", "--timeout=60s")


def test_an_image_is_removed_with_files_of_all_its_users(
    builder: Builder, cluster: Cluster
) -> None:
    archive = builder.build("several", DOCKERFILES["several"], "gzip")
    cluster.user.has(archive)
    cluster.lines("before", foreign("several"), command=["true"])
    store = cluster.user.home / ".cache" / "traincrew" / "container-images"
    trees = [*store.glob("layers/owned-*/sha256-*")]
    cluster.user.removes(archive, foreign("several"))
    # Layers stay that another image has as well, and with them their trees.
    made_from = ("layers/single", "images")
    stale = [
        tree for tree in trees if not any((store / each / tree.name).exists() for each in made_from)
    ]
    assert bool(stale) == cluster.user.is_mapped
    assert not any(each.exists() for each in stale)


def test_a_volume(builder: Builder, cluster: Cluster) -> None:
    """As in containerd it begins with the image's content; nothing of it stays."""
    cluster.user.has(builder.build("volume", DOCKERFILES["volume"], "gzip"))
    for name in ("volume", "volume-again"):
        assert cluster.lines(name, foreign("volume")) == ["seed", "new", "seed", "1777"]


def test_an_image_as_a_volume(builder: Builder, cluster: Cluster) -> None:
    cluster.user.has(builder.build("several", DOCKERFILES["several"], "gzip"))
    script = """
    stat -c '%u:%g %a' /data/srv/home; ls /part; tail -n 1 /data/etc/group
    touch /data/new 2>/dev/null || echo read-only
    /data/bin/busybox id 2>/dev/null || echo no program
    """
    mounts = [{"name": "data", "mountPath": "/data"}]
    mounts.append({"name": "data", "mountPath": "/part", "subPath": "srv/home"})
    lines = cluster.lines(
        "as-volume",
        foreign("several"),
        pod={"volumes": [{"name": "data", "image": {"reference": foreign("several")}}]},
        command=["sh", "-c", script],
        volumeMounts=mounts,
    )
    owner = "0:0" if cluster.user.is_nobody else "1234:100"
    assert lines == [f"{owner} 700", "mine", "data:x:2000:trainer", "read-only", "no program"]


def test_one_static_program(builder: Builder, cluster: Cluster) -> None:
    cluster.user.has(builder.build("static", DOCKERFILES["static"], "gzip"))
    assert cluster.lines("static", foreign("static")) == ["static default uid=0 files=-1"]
    assert cluster.lines("static-args", foreign("static"), args=["mine"]) == [
        "static mine uid=0 files=-1"
    ]


def test_links_and_whiteouts(builder: Builder, cluster: Cluster) -> None:
    cluster.user.has(builder.build("links", DOCKERFILES["links"], "gzip"))
    assert cluster.lines("links", foreign("links")) == [
        "usr/bin", "/opt:", "again", "hard", "", "/opt/again:", "new", "/bin/tool", "gone",
    ]  # fmt: skip


def test_sixty_layers_of_zstd(builder: Builder, cluster: Cluster) -> None:
    archive = builder.build("many", DOCKERFILES["many"], "zstd")
    with tarfile.open(archive) as members:
        kinds = re.findall(rb"tar\+(\w+)", b"".join(_small_files(members)))
    assert kinds == [b"zstd"] * LAYERS
    cluster.user.has(archive)
    assert cluster.lines("many", foreign("many")) == [str(LAYERS - 5), "data:x:2000:trainer"]


def _small_files(archive: tarfile.TarFile) -> Iterator[bytes]:
    for member in archive:
        file = archive.extractfile(member) if member.size < 50_000 else None
        if file is not None:
            yield file.read()


LINKED = Layer(
    directory("usr/"),
    directory("usr/bin/"),
    entry("usr/bin/old", b"", mode=0o755),
    entry("usr/bin/kept", b""),
    symlink("bin", "usr/bin"),
    symlink("sbin", "/usr/bin"),
)
OVER_LINKS = {
    "a file over a link": [entry("bin/new", b"")],
    "a directory over a link": [directory("bin/"), entry("bin/new", b"")],
    "a whiteout over a link": [entry("sbin/.wh.kept")],
}
"""Layers that write to a path on which lower layers have a link to a directory."""
LIST = [
    "/busybox",
    "sh",
    "-c",
    """
    cd /
    for each in bin sbin bin/* sbin/* usr/bin/*; do
        if [ -L "$each" ]; then echo "$each -> $(/busybox readlink "$each")"
        elif [ -e "$each" ]; then echo "$each"; fi
    done
    """,
]


@pytest.mark.parametrize("case", OVER_LINKS)
def test_a_layer_over_a_link_is_as_in_podman(builder: Builder, cluster: Cluster, case: str) -> None:
    """A layer's own directory takes the place of the link, and the link's target is as it was.

    So podman's overlay driver and containerd's snapshotter `overlayfs` (2.4), which a cluster has,
    unpack it: each layer by itself. Only drivers that unpack into a merged tree (`vfs`, `native`)
    write through links of lower layers.
    """
    name = case.replace(" ", "-")
    program = Layer(
        entry("busybox", Path(BUSYBOX or "").read_bytes(), mode=0o755), directory("proc/")
    )
    archive = builder.place / f"{name}.tar"
    _save(archive, f"example.com/foreign/{name}:1", [LINKED, program, Layer(*OVER_LINKS[case])])
    builder.podman("load", "-q", "-i", str(archive))
    place = builder.podman("image", "mount", f"example.com/foreign/{name}:1").strip()
    theirs = subprocess.run(
        ["chroot", place, *LIST], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    builder.podman("image", "umount", f"example.com/foreign/{name}:1")
    assert ("bin -> usr/bin" in theirs) == ("whiteout" in case)
    assert "usr/bin/kept" in theirs
    assert "usr/bin/new" not in theirs

    cluster.user.has(archive)
    assert cluster.lines(name, foreign(name), command=LIST) == theirs


def _save(path: Path, name: str, layers: Sequence[Layer]) -> None:
    """Write what `docker save` does."""
    config = config_of(*layers)

    def add(archive: tarfile.TarFile, name: str, content: bytes) -> str:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
        return name

    with tarfile.open(path, "w") as archive:
        files = [add(archive, f"{each.diff_id[7:]}.tar", each.archive) for each in layers]
        document = add(archive, f"{digest(config)[7:]}.json", config)
        listed = {"Config": document, "RepoTags": [name], "Layers": files}
        add(archive, "manifest.json", json.dumps([listed]).encode())
