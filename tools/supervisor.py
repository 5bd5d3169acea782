"""Builds the supervisor's prefix reproducibly, and installs it: `make supervisor`, `make install-supervisor`.

    .venv/bin/python tools/supervisor.py build [--out build/supervisor]
    .venv/bin/python tools/supervisor.py install [--root DIR] [--operator-uid UID]

A prefix holds an interpreter with its library, the wheels of requirements/official.lock and memtrial's own, unpacked
as they are, and a program. Two builds have the same manifest. Whatever is written is said, a line each.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing, MemtrialError, UsageError
from orchestrator.core.files import safe_relative, write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.model.gate import Manifest
from orchestrator.trust.manifest import first_difference, manifest_of, staged_manifest

ROOT = Path(__file__).resolve().parents[1]
PREFIX = Path("/opt/memtrial")
SYSTEM = Path("/etc/memtrial")
STATE = Path("/var/lib/memtrial")
UNIT = Path("/etc/systemd/system/memtrial-supervisor.service")
MANIFEST = "supervisor.manifest.json"
KEY = "supervisor.key.pem"
PROVIDERS = "providers.json"
USER = "memtrial"
LOCK = ROOT / "requirements" / "official.lock"
# Of the standard library: what no program imports, and what one machine generated for itself.
LEFT_OUT = re.compile(
    r"__pycache__|.*\.pyc|.*\.a|site-packages|dist-packages|test|tests|idlelib|idle_test|tkinter|turtledemo|"
    r"turtle\.py|ensurepip|lib2to3|EXTERNALLY-MANAGED|sitecustomize\.py|config-.*"
)
# The system's own folders, which root alone can write; an interpreter may need a library from nowhere else.
SYSTEM_LIBRARIES = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


def said(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def build(out: Path, python: Path) -> str:
    """Builds the prefix below `out` and returns the digest of its manifest."""
    stage = out / "root" / PREFIX.relative_to("/")
    shutil.rmtree(out, ignore_errors=True)
    version = _interpreter(python)
    place_interpreter(python, version, stage)
    site = stage / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="memtrial-wheels-") as name:
        wheels = Path(name)
        _run("-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels))
        _run(
            *("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "-r", str(LOCK), "-d", str(wheels)),
        )
        for wheel in sorted(wheels.glob("*.whl")):
            unpack(wheel, site)
    program = stage / "bin" / "memtrial"
    program.write_text(
        f"#!{PREFIX}/bin/python -IB\nfrom orchestrator.cli.main import main\n\nraise SystemExit(main())\n",
        encoding="ascii",
    )
    _modes(stage)
    manifest = staged_manifest(stage)
    write_atomic(out / MANIFEST, manifest.canonical())
    said(f"built {stage}: {len(manifest.files)} files")
    said(f"manifest sha256 {manifest.digest_sha256()}")
    return manifest.digest_sha256()


def _run(*words: str) -> None:
    finished = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise EnvironmentMissing(
            "build-failed",
            f"{' '.join(words[:4])}: expected success, found {(finished.stderr or finished.stdout)[-600:]}",
            hint="mend what it says (network, index, disk), then run `make supervisor`",
        )


def _interpreter(python: Path) -> str:
    """Returns the version of an interpreter that a service of another user can run."""
    if not python.is_file():
        raise UsageError(
            "interpreter-missing",
            f"expected an interpreter at {python}, found none",
            hint="name one with PYTHON=/usr/bin/python3.11",
        )
    told = subprocess.run(
        [python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    libraries = subprocess.run(["ldd", python], capture_output=True, text=True, check=True).stdout
    outside = [
        word
        for word in re.findall(r"(?<=\s)/\S+", libraries)
        if not word.startswith(SYSTEM_LIBRARIES)
    ]
    if told != mine or outside:
        raise UsageError(
            "interpreter-not-usable",
            f"{python}: expected Python {mine} with libraries of the system alone, found {told} with {', '.join(outside) or 'these'}",
            hint=f"name the system's own: PYTHON=/usr/bin/python{mine}",
        )
    return told


def place_interpreter(python: Path, version: str, stage: Path) -> None:
    """Copies an interpreter and its library into the prefix, and makes the prefix its environment."""
    library = subprocess.run(
        [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    def left_out(_: str, names: list[str]) -> list[str]:
        return [name for name in names if LEFT_OUT.fullmatch(name)]

    shutil.copytree(library, stage / "base" / "lib" / f"python{version}", ignore=left_out)
    for place in (stage / "base" / "bin" / f"python{version}", stage / "bin" / "python"):
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(python, place)
    (stage / "pyvenv.cfg").write_text(
        f"home = {PREFIX}/base/bin\ninclude-system-site-packages = false\nversion = {version}\n",
        encoding="ascii",
    )


def unpack(wheel: Path, site: Path) -> None:
    """Unpacks a wheel as it is, so that every file stays what its RECORD says."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            name = safe_relative(info.filename, where=wheel.name)
            if re.search(r"\.data/(purelib|platlib)/", info.filename):
                raise EnvironmentMissing(
                    "wheel-not-plain",
                    f"{wheel.name}: expected modules at its top, found {info.filename}",
                    hint="choose another version of it in the lock",
                )
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(info))


def _modes(stage: Path) -> None:
    for path in (stage, *stage.rglob("*")):
        runs = path.is_dir() or path.parent.name == "bin"
        path.chmod(0o755 if runs else 0o644)


def install(built: Path, root: Path, operators: tuple[int, ...]) -> None:
    """Installs a built prefix below `root`, as root, under a user of its own; says every line of it."""
    if os.geteuid() != 0:
        raise UsageError(
            "not-root",
            f"expected to be root, whose the prefix is, found uid {os.geteuid()}",
            hint="run `make install-supervisor` as root",
        )
    stage = built / "root" / PREFIX.relative_to("/")
    expected = Manifest.parse_canonical(
        (built / MANIFEST).read_bytes(), where=MANIFEST, max_bytes=32 * 1024 * 1024
    )
    prefix, system, state = (below(root, p) for p in (PREFIX, SYSTEM, STATE))
    if prefix.exists():
        raise UsageError(
            "prefix-there",
            f"expected nothing at {prefix}, found an installation",
            hint=f"stop the service and remove {prefix} first; approvals name its manifest, so they end with it",
        )
    uid = user_of(root)
    public_folder(prefix.parent)
    shutil.copytree(stage, prefix, symlinks=True)
    for path in (prefix, *prefix.rglob("*")):
        os.chown(path, 0, 0, follow_symlinks=False)
    said(f"copied {len(expected.files)} files to {prefix}, owned by root, writable by nobody else")
    found = manifest_of(prefix, owner_uid=0)
    where = first_difference(expected, found)
    if where is not None:
        raise EnvironmentMissing(
            "install-differs",
            f"{prefix / where}: expected the file that was built, found another",
            hint="build and install it again",
        )
    said(f"checked every file again; manifest sha256 {found.digest_sha256()}")
    public_folder(system)
    write_atomic(system / MANIFEST, found.canonical())
    said(f"wrote {system / MANIFEST}")
    keyid = own_key(state, system, uid)
    said(f"made {state}, of uid {uid} alone, with {KEY}; key id {keyid}")
    said(f"wrote {system / 'supervisor.pub.pem'}, which `memtrial trust init --supervisor` takes")
    unit = below(root, UNIT)
    public_folder(unit.parent)
    write_atomic(unit, unit_text(operators).encode())
    said(f"wrote {unit}; operators: {', '.join(map(str, operators)) or 'root alone'}")
    said(f"left to do: {STATE / PROVIDERS} with the providers' keys (mode 0600, of {USER})")
    said("left to do: memtrial trust init, then systemctl enable --now memtrial-supervisor")


def below(root: Path, path: Path) -> Path:
    """Returns where a path lies below another root."""
    return root / path.relative_to("/")


def public_folder(folder: Path) -> None:
    """Makes a folder that everybody may enter and read, whatever the installer's umask; one that is there is left."""
    if folder.is_dir():
        return
    public_folder(folder.parent)
    folder.mkdir()
    folder.chmod(0o755)


def user_of(root: Path) -> int:
    """Returns the uid of the supervisor's user, which is made on a real machine."""
    import pwd

    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        pass
    if root != Path("/"):
        # A root that is only staged has no users of its own; the number is the first of the system's dynamic range.
        return 61184
    words = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
    subprocess.run(words, check=True, capture_output=True)
    uid = pwd.getpwnam(USER).pw_uid
    said(f"made the user {USER}, uid {uid}, without a home and a shell")
    return uid


def own_key(state: Path, system: Path, uid: int) -> str:
    """Makes the supervisor's folder and key; a key that is there is kept."""
    public_folder(state.parent)
    state.mkdir(mode=0o700, exist_ok=True)
    state.chmod(0o700)
    path = state / KEY
    key = SigningKey.load(path) if path.exists() else SigningKey.create(path)
    for place in (state, path):
        os.chown(place, uid, -1)
    write_atomic(system / "supervisor.pub.pem", key.public.pem())
    return key.public.keyid


def unit_text(operators: tuple[int, ...]) -> str:
    """Returns the service's unit: an isolated interpreter, an empty environment, nothing to write but its own.

    What it must see of the machine: its prefix, /etc/memtrial, its state, the clone in /srv, git, and /run/memtrial,
    where others find its sockets. Never PrivateUsers (the gate refuses a user namespace), never DynamicUser, and never
    RestrictSUIDSGID, under which systemd lets openat2 fail, by which the gate opens what it trusts.
    """
    allowed = "".join(f" --allow-uid {uid}" for uid in operators)
    return f"""[Unit]
Description=memtrial supervisor: dispatches approved runs
After=network.target

[Service]
User={USER}
RuntimeDirectory=memtrial
RuntimeDirectoryMode=0755
ExecStart=/usr/bin/env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME={STATE} {PREFIX}/bin/memtrial supervisor --key {STATE}/{KEY} --provider-keys {STATE}/{PROVIDERS} --repository /srv/memtrial{allowed}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
ReadWritePaths={STATE}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallArchitectures=native
CapabilityBoundingSet=
UMask=0022
# A run has up to 512 connections of its trials, and as many to its provider.
LimitNOFILE=65536
# Runs end with the service and go on by `memtrial resume`; the service itself always comes back.
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    words = parser.add_subparsers(dest="word", required=True)
    one = words.add_parser("build")
    one.add_argument("--python", type=Path, default=Path("/usr/bin/python3.11"))
    two = words.add_parser("install")
    two.add_argument("--root", type=Path, default=Path("/"))
    two.add_argument("--operator-uid", type=int, action="append", default=[])
    for word in (one, two):
        word.add_argument("--out", type=Path, default=ROOT / "build" / "supervisor")
    arguments = parser.parse_args()
    try:
        if arguments.word == "build":
            build(arguments.out, arguments.python)
        else:
            install(arguments.out, arguments.root, tuple(arguments.operator_uid))
    except MemtrialError as error:
        sys.stderr.write(f"{error.message}\n  next: {error.hint}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
