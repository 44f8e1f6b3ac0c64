# SPDX-License-Identifier: MIT
"""numba_tests.py --list | TEST...: the files of numba's tests of GPUs; or runs tests, and prints each one's name, a tab, and what became of it."""
import glob
import os
import sys
import unittest

import numba.cuda.tests


class Result(unittest.TestResult):
    said = None  # a test of several parts says once that it has failed

    def say(self, test, what):
        if self.said == test.id():
            return
        self.said = test.id()
        print(test.id(), what, sep='\t', file=out, flush=True)

    def addSuccess(self, test):
        self.say(test, 'passed')

    def addError(self, test, error):
        lines = self._exc_info_to_string(error, test).strip().splitlines()
        print(*lines, sep='\n', file=sys.stderr)
        self.say(test, 'failed: ' + lines[-1][:150])

    def addFailure(self, test, error):
        self.addError(test, error)

    def addSkip(self, test, reason):
        self.say(test, 'skipped: ' + reason)

    def addExpectedFailure(self, test, error):
        self.say(test, 'passed')

    def addUnexpectedSuccess(self, test):
        self.say(test, 'failed: it was expected to')

    def addSubTest(self, test, subtest, error):
        if error:
            self.addError(test, error)


# Some tests start processes, which import this file again.
if __name__ == '__main__':
    out = os.fdopen(os.dup(1), 'w')  # tests write to standard output
    os.dup2(2, 1)
    if sys.argv[1] == '--list':
        at = os.path.dirname(numba.cuda.tests.__file__)
        for kind in ('cudadrv', 'cudapy', 'doc_examples'):
            for path in sorted(glob.glob(f'{at}/{kind}/test_*.py')):
                print('numba.cuda.tests', kind, os.path.basename(path)[:-3], sep='.', file=out)
    else:
        unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(Result())
    out.flush()
    os._exit(0)  # threads of tests may wait for ever
