"""The virtual environment that the peers live in, made once in podaq's cache folder."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
FREE_BYTES_NEEDED = 1 << 30


def cache_folder():
    """Where podaq keeps what it fetches or makes: $PODAQ_CACHE, else $XDG_CACHE_HOME/podaq, else ~/.cache/podaq."""
    if os.environ.get("PODAQ_CACHE"):
        return pathlib.Path(os.environ["PODAQ_CACHE"]) / "peers"
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "podaq" / "peers"


def enter():
    """Goes on in the environment's Python, after making the environment if its requirements have changed."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    folder = cache_folder() / "environment"
    stamp = folder / "requirements.sha256"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != key:
        make(folder)
        stamp.write_text(key, encoding="utf-8")
    if pathlib.Path(sys.prefix).resolve() != folder.resolve():
        python = str(folder / "bin" / "python")
        os.execv(python, [python, *sys.argv])  # by its full path, from which it knows its environment


def make(folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < FREE_BYTES_NEEDED:
        raise SystemExit(f"{folder.parent} has {free >> 20} MiB free; {FREE_BYTES_NEEDED >> 20} MiB are needed for the "
                         "peers. Free some, or set PODAQ_CACHE to a folder elsewhere.")
    print(f"Installing the peers into {folder} (once, about 120 MB to download)", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    if subprocess.run([sys.executable, "-m", "venv", folder], check=False).returncode != 0:
        raise SystemExit("python3 cannot make a virtual environment. On Debian: apt-get install python3-venv")
    scratch = folder / "scratch"  # not /tmp, which may be too small
    scratch.mkdir()
    install = [folder / "bin" / "python", "-m", "pip", "install", "--no-cache-dir", "--no-deps"]
    if subprocess.run([*install, "--requirement", REQUIREMENTS], env={**os.environ, "TMPDIR": str(scratch)}, check=False).returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise SystemExit("the peers could not be installed; pip says why, above")
    shutil.rmtree(scratch)
