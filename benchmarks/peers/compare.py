#!/usr/bin/env python3
"""Times podaq against LibTorch, ONNX Runtime and OpenVINO on this machine.

All engines run in one process, in interleaved rounds, so that the drift of a shared machine meets all of them; medians
are over rounds. The peers are installed into a virtual environment in podaq's cache folder on the first run.
"""
import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import time

import environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETS = ["vgg10_1d", "resnet_1d", "cnn_a", "vgg16"]
ROUND_SECONDS = 0.005  # calls are repeated within a round until this much time has passed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS, metavar="NET", help=" ".join(NETS))
    parser.add_argument("--batches", nargs="+", type=positive, default=[1, 64], metavar="N")
    parser.add_argument("--threads", nargs="+", type=positive, default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=positive, default=31, help="of each engine (default: %(default)s)")
    parser.add_argument("--engines", nargs="+", metavar="ENGINE", help="only these")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write one row per net, batch, threads, engine")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                        help="podaq's build folder (default: %(default)s)")
    return parser.parse_args()


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def make_networks(build, nets):
    """The folder that holds the networks' files."""
    program = build / "bin" / "make_networks"
    if not program.is_file():
        raise SystemExit(f"there is no {program}. Build podaq with its benchmarks, or name the folder with --build.")
    folder = environment.cache_folder() / "networks"
    sources = [pathlib.Path(__file__).with_name(name) for name in ("make_networks.cpp", "networks.cpp")]
    newest = max(source.stat().st_mtime for source in sources)
    stale = [net for net in nets if not all(
        file.is_file() and file.stat().st_mtime > newest
        for file in (folder / f"{net}.json", folder / f"{net}_block_4x1.podaq"))]
    if stale:
        print(f"Making the networks in {folder}", file=sys.stderr, flush=True)
        subprocess.run([program, folder, *stale], check=True, stdout=sys.stderr)
    return folder


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


class Progress:
    """One line on standard error with the time left, estimated from what the rounds so far took."""

    def __init__(self, total):
        self.total, self.done, self.spent, self.shown = total, 0.0, 0.0, 0.0

    def advance(self, work, seconds, text):
        self.done += work
        self.spent += seconds
        now = time.monotonic()
        if not sys.stderr.isatty() and now - self.shown < 10 or now - self.shown < 0.2:
            return
        self.shown = now
        left = self.spent * (self.total - self.done) / self.done
        line = f"{text}, {int(left // 60)}:{int(left % 60):02d} left"
        if sys.stderr.isatty():
            print(f"\r{line:<70}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def clear(self):
        if sys.stderr.isatty():
            print(f"\r{'':<70}\r", end="", file=sys.stderr, flush=True)


def round_cost(multiply_adds, batch):
    """Roughly the seconds of one round of one engine, for the progress alone."""
    return max(ROUND_SECONDS, 2e-11 * multiply_adds * batch)


def is_quick(engine):
    """Runs it for the first time, then tells whether one more run costs little."""
    engine.run()
    started = time.perf_counter()
    engine.run()
    return time.perf_counter() - started < 2 * ROUND_SECONDS


def measure(engines, rounds, threads, on_round):
    """Microseconds per call, `rounds` of them for each engine."""
    quick = [is_quick(engine) for engine in engines]
    times = [[] for _ in engines]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            round_started = time.perf_counter()
            for engine, warms_up, results in zip(engines, quick, times):
                if threads > 1:
                    time.sleep(0.01)  # until the last engine's threads have gone to sleep
                if warms_up:
                    engine.run()
                calls, started = 0, time.perf_counter()
                while True:
                    engine.run()
                    calls += 1
                    passed = time.perf_counter() - started
                    if passed >= ROUND_SECONDS:
                        break
                results.append(1e6 * passed / calls)
            on_round(time.perf_counter() - round_started)
    finally:
        gc.enable()
    return times


def summary(microseconds):
    ordered = sorted(microseconds)
    return {f"{name}_us": round(ordered[round(share * (len(ordered) - 1))], 2)
            for name, share in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))}


def report_results(results):
    """The float engines must compute the same; tells how far the int8 engines are from them. (Pruned networks are other
    networks.)"""
    floats = [name for name in results if name.endswith("_float")]
    for name in floats[1:]:
        difference = abs(results[floats[0]] - results[name]).max() / abs(results[floats[0]]).max()
        if not difference < 1e-3:
            raise SystemExit(f"{name} and {floats[0]} differ by {difference:.2e} of the largest output")
    errors = []
    for name in (name for name in results if name.endswith("_int8") and floats):
        reference = results[floats[0]]
        error = ((results[name] - reference) ** 2).mean() ** 0.5 / reference.std()
        errors.append(f"{name} {100 * error:.1f} %")
    if errors:
        print("int8 error against float, of the outputs' deviation:", ", ".join(errors))


def report_kernels(built):
    for engine in built:
        if engine.name in ("openvino_int8", "podaq_int8"):
            print(f"{engine.name} runs {', '.join(engine.kernels)}", flush=True)


def print_table(rows, peers_int8):
    best = min((row["median_us"] for row in rows if row["engine"] in peers_int8), default=None)
    print(f"\n{rows[0]['net']}, batch {rows[0]['batch']}, {rows[0]['threads']} thread(s)")
    print(f"{'engine':<20} {'median us':>11} {'10 %':>11} {'90 %':>11}   best peer int8 / it")
    for row in rows:
        ratio = f"{best / row['median_us']:19.2f}x" if best else ""
        times = " ".join(f"{row[name]:11.1f}" for name in ("median_us", "p10_us", "p90_us"))
        print(f"{row['engine']:<20} {times} {ratio}", flush=True)


def write_json(path, rows):
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def compare(arguments, rows):
    import engines
    import numpy
    import podaq

    unknown = set(arguments.engines or []) - set(engines.NAMES)
    if unknown:
        raise SystemExit(f"no engine {', '.join(sorted(unknown))}; there are {', '.join(engines.NAMES)}")
    names = [name for name in engines.NAMES if not arguments.engines or name in arguments.engines]
    folder = make_networks(arguments.build, arguments.nets)
    libpodaq = podaq.Library(arguments.build / "src" / "libpodaq.so")
    libtorch_peer = engines.load_libtorch_peer(arguments.build / "benchmarks" / "liblibtorch_peer.so")
    print(cpu_name(), *engines.versions(libpodaq, libtorch_peer), sep="; ", flush=True)

    macs = {net: engines.networks.Network(folder / net).multiply_adds() for net in arguments.nets}
    work = sum(round_cost(macs[net], batch) for net in arguments.nets for batch in arguments.batches)
    progress = Progress(work * len(arguments.threads) * arguments.rounds)
    for net in arguments.nets:
        factory = engines.Factory(folder / net, libpodaq, libtorch_peer)
        for batch in arguments.batches:
            noise = numpy.random.default_rng(2)
            samples = noise.standard_normal((batch, *factory.network.input_shape), dtype=numpy.float32)
            for threads in arguments.threads:
                built = [engine for name in names if (engine := factory.build(name, samples, threads))]
                times = measure(built, arguments.rounds, threads, lambda seconds: progress.advance(
                    round_cost(macs[net], batch), seconds, f"{net}, batch {batch}, {threads} thread(s)"))
                progress.clear()
                configuration = {"net": net, "batch": batch, "threads": threads}
                measured = [{**configuration, "engine": engine.name, **summary(microseconds)}
                            for engine, microseconds in zip(built, times)]
                rows += measured
                print_table(measured, engines.PEERS_INT8)
                report_results({engine.name: engine.result() for engine in built})
                report_kernels(built)


def main():
    arguments = parse_arguments()
    rows = []
    status = 0
    try:
        environment.enter()
        compare(arguments, rows)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        status = 130
    if arguments.json and rows:
        write_json(arguments.json, rows)
    sys.stdout.flush()
    os._exit(status)  # some peers' threads outlive a stop


if __name__ == "__main__":
    main()
