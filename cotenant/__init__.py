"""cotenant: will voice and video survive on a shared GPU?"""

__version__ = "0.1.0"
