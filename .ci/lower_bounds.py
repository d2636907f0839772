"Print the lower bounds of settings.ini as pip constraints: python .ci/lower_bounds.py [EXTRA ...] > lower.txt"
import re, sys
from configparser import ConfigParser
from pathlib import Path

ini = ConfigParser(delimiters=['='])
ini.read(Path(__file__).resolve().parent.parent/'settings.ini', encoding='utf-8')
cfg = ini['DEFAULT']
wanted = [cfg['requirements'], *(cfg[f'{o}_requirements'] for o in sys.argv[1:])]
bounds = dict(re.fullmatch(r'([\w-]+)>=([\d.]+)', o).groups() for o in ' '.join(wanted).split())
print('\n'.join(f'{k}=={v}' + '.*'*(v.count('.') < 2) for k, v in sorted(bounds.items())))
