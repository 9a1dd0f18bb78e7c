"""A store on S3: a real client, s3fs, against the S3 API of moto's server on loopback, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleets.conftest import PATH, ROOT, Processes, own_address, until
from tests.fleets.play import BILLS, SLOW, billed, bills, tasks
from tests.needs import needs
from toolkit.runs import load_run
from toolkit.runs.batches import Batch

PYTHON = Path(sys.prefix) / "s3" / "bin" / "python"
pytestmark = needs(PYTHON.exists(), "the server for S3 is not fetched: ./dev test does it")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a process that may use the bucket `fleet`."""
    host, port = own_address()
    packages = sysconfig.get_paths()["purelib"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home")), "PYTHONPATH": f"{PATH}:{packages}"}
    env |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test"}
    env |= {"AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    words = [str(PYTHON), "-m", "moto.server", "-H", host, "-p", str(port)]
    server = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make_bucket(env["AWS_ENDPOINT_URL"], server)
        yield env
    finally:
        server.terminate()
        server.wait(60)


def _make_bucket(endpoint: str, server: subprocess.Popen[bytes]) -> None:
    request, until = urllib.request.Request(f"{endpoint}/fleet", method="PUT"), time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60):
                return
        except OSError:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)  # it says nothing when it is ready


def in_s3(s3: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PYTHON, *words], env=s3, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_store_on_s3_does_all_that_a_store_does(s3: dict[str, str]) -> None:
    done = in_s3(s3, "-m", "tests.fleets.exercise", "s3://fleet/batches")
    assert done.stdout == "all of it\n", done.stderr


def test_a_bucket_that_is_not_there_is_named(s3: dict[str, str]) -> None:
    done = in_s3(s3, "-m", "tests.fleets.exercise", "s3://no-such-bucket/x")
    said = done.stderr[done.stderr.index("StoreError: the store cannot be written: ") :].splitlines()
    assert [line.strip() for line in said[1:3]] == ["s3://no-such-bucket/x", "claims/task/1"]


def test_the_runs_of_a_batch_come_back_through_s3(s3: dict[str, str], tmp_path: Path, toolkit_home: Path) -> None:
    packages = in_s3(s3, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").stdout.strip()
    env = {**s3, "PYTHONPATH": f"{PATH}:{packages}", BILLS: str(tmp_path / "bills"), "TMPDIR": str(tmp_path)}
    processes = Processes(tmp_path, env)
    processes.scheduler()
    for name in ("w1", "w2"):  # each has runs of its own: what the caller has came through the store
        processes.worker(name, env={**env, "TOOLKIT_HOME": str(tmp_path / name)})
    batch = Batch.begin("b", tasks(4))
    words = [sys.executable, "-W", "ignore", "-m", "tests.fleets.calling"]
    words += [batch.name, processes.address, "30", "s3://fleet/runs"]
    try:
        done = subprocess.run(
            words, env={**env, "TOOLKIT_HOME": str(toolkit_home)}, cwd=ROOT, capture_output=True, text=True, timeout=170
        )
    finally:
        processes.close()
    assert done.stdout == "ok\n", done.stderr
    assert [load_run(f"b.t{number}.1").result().text for number in range(4)] == ["done"] * 4
    assert billed(tmp_path / "bills") == sum(one.tokens for one in batch.standings().values()) == 4000


def test_a_batch_whose_caller_was_killed_is_gone_on_with_elsewhere_from_s3(s3: dict[str, str], tmp_path: Path) -> None:
    packages = in_s3(s3, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").stdout.strip()
    env = {**s3, "PYTHONPATH": f"{PATH}:{packages}", BILLS: str(tmp_path / "bills"), "TMPDIR": str(tmp_path)}
    env |= {SLOW: str(tmp_path)}
    processes = Processes(tmp_path, env)
    processes.scheduler()
    for name in ("w1", "w2"):
        processes.worker(name, env={**env, "TOOLKIT_HOME": str(tmp_path / name)})
    words = [sys.executable, "-W", "ignore", "-m", "tests.fleets.following", "b", processes.address]
    words += ["s3://fleet/followed", "4", "Slow"]
    try:
        with subprocess.Popen(words, env={**env, "TOOLKIT_HOME": str(tmp_path / "a")}, cwd=ROOT) as first:
            until(lambda: (tmp_path / "bills").exists() and len(list(bills(tmp_path / "bills"))) == 2)
            first.kill()
        (tmp_path / "go").touch()
        done = subprocess.run(
            words,
            env={**env, "TOOLKIT_HOME": str(tmp_path / "b")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=170,
        )
    finally:
        processes.close()
    assert done.returncode == 0, done.stderr
    stand = json.loads(done.stdout)
    assert [(state, len(runs)) for state, runs, _ in stand.values()] == [("ok", 1)] * 4
    assert billed(tmp_path / "bills") == sum(tokens for *_, tokens in stand.values()) == 4000
