"""What the tests here check with: each ends the test with a word."""
import sys
import time


def check(condition, what, output=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{output}")


def wait_for(condition, what):
    for _ in range(60000):
        if condition():
            return
        time.sleep(0.01)
    sys.exit(f"FAILED: never: {what}")
