from . import hf
