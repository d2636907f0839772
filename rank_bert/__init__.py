"See, shrink, steer, compare and ship the rank of BERT-family encoders."
__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING: # what `from rank_bert import ...` gives: read by editors, and below, where a name is imported at its first use
    # build: models and data
    from .data.facts import GLUE_TASKS
    from .data.glue import glue_dls, load_glue, sample_tokenizer
    from .data.loaders import text_dls
    from .data.search import read_search
    from .models.encoder import Encoder, linears
    from .models.roles import ROLES, add_family
    from .models.kinds import loss_increase
    from .models.sizes import encoder_params
    from .models.classifier import pooled_classifier
    from .models.opener import get_tokenizer, open_model
    from .models.base_models import (BERT_CONFIGS, GLUE_NUM_LABELS, BertWrapper, bert_config, count_parameters,
        get_pretrained_model, get_wrapped_model)
    # see
    from .see.metrics import (effective_rank, energy_rank, mp_outliers, numerical_rank, participation_ratio, plot_ranks,
        plot_spectra, rank_report, rankme, singular_values, stable_rank, token_residual)
    from .see.search import compare_search
    from .see.verdict import verdict
    # shrink
    from .lowrank.layers import LowRankLinear, break_even
    from .lowrank.linalg import Factors
    from .lowrank.plan import RankPlan, apply_plan, plan_of, to_dense
    from .shrink.heads import head_report, truncate_heads
    from .shrink.calibrate import calibrate
    from .shrink.decompose import decompose, decomposition
    from .shrink.decomposition import smallest_plan
    from .shrink.allocate import allocate
    from .shrink.refit import refit
    from .shrink.recipe import part, recipes
    from .shrink.guarantee import changed_answers, plot_guarantee, still_holds
    from .shrink.compress import compress
    from .shrink.heal import heal
    # train and steer
    from .train.learner import encoder_learner
    from .train.glue_learner import glue_learner, text_learner
    from .train.resume import ResumeFit
    from .train.distill import DistilCallback
    from .train.student import distil_init
    from .train.mlm import mlm_dls, mlm_learner
    from .steer.project import project_layers, threshold_layers
    from .steer.monitor import RankMonitor
    from .steer.history import plot_rank_history
    from .steer.penalty import FrobeniusDecay, NuclearNormPenalty
    from .steer.projection import RankProjection, RankSchedule
    from .steer.switch import LowRankSwitch
    from .steer.galore import GaLore
    from .steer.adapters import add_lora, load_lora, merge_lora
    from .steer.shrink_lora import shrink_lora
    from .steer.intrinsic import intrinsic_dimension
    # ship
    from .ship.cascade import cascade
    from .ship.check import check
    from .ship.export import export
    from .ship.runtime import Predictor
    from .ship.space import same_index
    # compare
    from .compare.sweep import Sweep
    from .compare.report import report

def _public():
    "Read the block above: public name -> the module that it is from."
    import ast
    block = next(o for o in ast.parse(__loader__.get_source(__name__)).body if isinstance(o, ast.If))
    return {a.name: f'{__name__}.{o.module}' for o in block.body for a in o.names}

def __getattr__(name):
    if name == '__all__': value = [*_public()]
    elif name.startswith('_') or name not in (public := _public()):
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    else:
        from importlib import import_module
        value = getattr(import_module(public[name]), name)
    globals()[name] = value
    return value

def __dir__(): return sorted({*globals(), *__getattr__('__all__')})

from . import register
