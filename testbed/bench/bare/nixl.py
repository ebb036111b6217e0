"""NIXL with nothing around it: one process writes into another's memory, each size so many times.

usage: nixl.py SITE TIMES BYTES...   (SITE: the folder that the wheel nixl-cu12 was installed into)

Prints "BYTES GB/S" a line, each the median of TIMES writes after one that is not counted. Uses the bindings
of the wheel alone, on host memory, with the plugin UCX, whose transports UCX_TLS chooses. Only the target runs
a progress thread: the initiator looks for the end of its write by itself, without a pause.
"""

import ctypes
import glob
import importlib.util
import mmap
import os
import statistics
import subprocess
import sys
import time


def bindings(site):
    (path,) = glob.glob(os.path.join(site, "nixl_cu12", "_bindings.*.so"))
    spec = importlib.util.spec_from_file_location("_bindings", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def descriptors(nixl, kind, one):
    # A list given at once would need numpy.
    made = kind(nixl.DRAM_SEG)
    made.addDesc(one)
    return made


def agent(nixl, name, progress, size):
    """An agent with `size` bytes registered; the memory must stay with it."""
    made = nixl.nixlAgent(name, nixl.nixlAgentConfig(progress))
    params, _ = made.getPluginParams("UCX")
    backend = made.createBackend("UCX", params)
    memory = mmap.mmap(-1, size)
    memory[:] = name[:1].encode() * size

    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    made.registerMem(descriptors(nixl, nixl.nixlRegDList, (start, size, 0, b"")), [backend])
    return made, backend, memory, start


def target(nixl, size):
    made, _, memory, start = agent(nixl, "target", True, size)
    print(made.getLocalMD().hex(), start, flush=True)
    # The initiator closes its end once it is through.
    sys.stdin.read()
    print(memory[:1].decode(), memory[size - 1 : size].decode(), flush=True)


def initiator(nixl, site, times, sizes):
    size = max(sizes)
    made, backend, _memory, start = agent(nixl, "initiator", False, size)
    far = subprocess.Popen(
        [sys.executable, __file__, "--target", site, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    metadata, there = far.stdout.readline().split()
    name = made.loadRemoteMD(bytes.fromhex(metadata)).decode()
    for length in sizes:
        taken = []
        for _ in range(times + 1):
            local = descriptors(nixl, nixl.nixlXferDList, (start, length, 0))
            remote = descriptors(nixl, nixl.nixlXferDList, (int(there), length, 0))
            request = made.createXferReq(nixl.NIXL_WRITE, local, remote, name, "", [backend])
            begun = time.perf_counter()
            state = made.postXferReq(request)
            while state == nixl.NIXL_IN_PROG:
                state = made.getXferStatus(request)
            taken.append(time.perf_counter() - begun)
            made.releaseXferReq(request)
            if state != nixl.NIXL_SUCCESS:
                sys.exit(f"a write of {length} bytes ended as {state}")
        print(length, length / statistics.median(taken[1:]) / 1e9, flush=True)
    far.stdin.close()
    if far.stdout.readline().split() != ["i", "i"] or far.wait() != 0:
        sys.exit("the target's memory does not hold what was written")


def main():
    if sys.argv[1] == "--target":
        target(bindings(sys.argv[2]), int(sys.argv[3]))
    else:
        site, times = sys.argv[1], int(sys.argv[2])
        initiator(bindings(site), site, times, [int(size) for size in sys.argv[3:]])


if __name__ == "__main__":
    main()
