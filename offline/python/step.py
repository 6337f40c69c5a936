"""Runs policy.onnx in ONNX Runtime on the slots of a real flight; see docs/python.md.

    offline/python/step.py CHECKPOINT STEPS.jsonl

STEPS.jsonl is of `offline replay -inputs`: on each line the tensors of a slot and what the
leader's own network gave. Prints the largest difference; exit status 1 if it is above 1e-4.
Takes Python's onnxruntime, or where that is not installed node's, of the folder $PREFDT_ORT.
"""

import json
import os
import subprocess
import sys


def python_session(model):
    """A function from a slot's tensors to the graph's outputs, by Python's ONNX Runtime."""
    import numpy
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    feeds = {}

    def run(tensors):
        for name, t in tensors.items():  # what is not given again stays
            feeds[name] = numpy.array(t["data"], numpy.float32).reshape(t["dims"])
        outputs = dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))
        for name in list(outputs):  # the cache of one slot is the past of the next
            if name.startswith("present"):
                feeds[name.replace("present", "past")] = outputs.pop(name)
        return {name: value.ravel().tolist() for name, value in outputs.items()}

    return run


def node_session(model):
    """The same by node's, one line of JSON for each slot."""
    if "PREFDT_ORT" not in os.environ:
        sys.exit("neither Python's onnxruntime nor node's (its folder in PREFDT_ORT) is here: docs/python.md")
    script = open(os.path.join(os.path.dirname(__file__), "../ort/ort.js")).read()
    node = subprocess.Popen(["node", "-e", script, os.environ["PREFDT_ORT"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(tensors):
        carry = {n.replace("past", "present"): n for n in tensors if n.startswith("past_") and n != "past_mask"}
        run.carry = carry or run.carry
        print(json.dumps({"model": model, "feeds": tensors, "carry": run.carry}), file=node.stdin, flush=True)
        return {name: t["data"] for name, t in json.loads(node.stdout.readline())["outputs"].items()}

    run.carry = {}
    return run


def main(checkpoint, steps):
    model = os.path.join(checkpoint, "policy.onnx")
    try:
        run = python_session(model)
    except ImportError:
        run = node_session(model)
    worst, slots = 0.0, 0
    for line in open(steps):
        step = json.loads(line)
        outputs = run(step["feeds"])
        for ours, theirs in zip([step["price"]] + step["move"], outputs["price"] + outputs["move"], strict=True):
            worst = max(worst, abs(ours - theirs))
        slots += 1
    print(f"{slots} slots, largest difference {worst:.1e}")
    return 0 if slots > 0 and worst < 1e-4 else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
