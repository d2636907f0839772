"Package metadata, read from settings.ini (nbdev 3 reads pyproject.toml only)."
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup, find_packages

here = Path(__file__).parent
ini = ConfigParser(delimiters=['='])
ini.read(here/'settings.ini', encoding='utf-8')
cfg = ini['DEFAULT']

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'],
    long_description=(here/'README.md').read_text(encoding='utf-8'), long_description_content_type='text/markdown',
    author=cfg['author'], author_email=cfg['author_email'], license=cfg['license'], keywords=cfg['keywords'].split(),
    classifiers=['Development Status :: 3 - Alpha', 'Intended Audience :: Science/Research', 'Intended Audience :: Developers',
                 'Programming Language :: Python :: 3', 'Programming Language :: Python :: 3 :: Only',
                 'Topic :: Scientific/Engineering :: Artificial Intelligence'],
    python_requires='>=' + cfg['min_python'],
    install_requires=cfg['requirements'].split(),
    extras_require={k.removesuffix('_requirements'): v.split() for k, v in cfg.items() if k.endswith('_requirements')},
    packages=find_packages(include=['rank_bert', 'rank_bert.*']),
    package_data={'rank_bert': ['data/sample/*', 'data/sample/*/*', 'compare/*.css', 'compare/*.js', 'ship/*.html']},
    entry_points={'console_scripts': cfg['console_scripts'].split(), 'nbdev': ['rank_bert=rank_bert._modidx:d']},
    zip_safe=False)
