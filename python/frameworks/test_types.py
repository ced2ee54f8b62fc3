"""The package's type hints, checked strictly by mypy (make check-frameworks)."""

import os
import subprocess
import sys
import tempfile
import unittest

import weft

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = os.path.join(os.path.dirname(HERE), "pyproject.toml")



class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def check(self, *what):
        """What mypy says."""
        env = dict(os.environ, MYPYPATH=os.path.dirname(os.path.dirname(weft.__file__)))
        command = [sys.executable, "-m", "mypy", "--config-file", CONFIG, *what]
        done = subprocess.run(command, env=env, cwd=self.folder.name, capture_output=True, text=True, timeout=600)
        return done.stdout + done.stderr

    def test_the_package(self):
        self.assertIn("Success: no issues found", self.check("-p", "weft"))

    def test_a_users_script(self):
        self.assertIn("Success: no issues found", self.check(os.path.join(HERE, "typed_script.py")))

    def test_what_is_wrong_is_found(self):
        for line, words in (("weft.verify(3)", "incompatible type"), ("weft.passes() + 1", "Unsupported operand"),
                            ("weft.Program.load('x').print('yaml').encode()", "has no attribute"), ("weft.nothing", "attribute")):
            self.assertIn(words, self.check("-c", f"import weft\n{line}"))


if __name__ == "__main__":
    unittest.main()
