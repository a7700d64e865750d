"""`Optimizer`: how the weights of a run are trained, as one value."""

import dataclasses

import keras

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.training.optimizer import adamw, rates_by_depth, without_decay
from keras_posenc.training.schedules import LinearWarmup, cosine_warmup
from keras_posenc.training.settings import Former, Settings

SCHEDULES = {"cosine": cosine_warmup, "linear": LinearWarmup}
# What `Optimizer` replaced in version 0.5.
FORMER = ("learning_rate", "schedule", "warmup", "weight_decay", "clip", "use_ema")


@dataclasses.dataclass(frozen=True, repr=False)
class Optimizer(Settings):
    """The optimizer of a run with its learning-rate schedule, decay and clipping.

    Functions that train take one, or its name alone, such as "adamw" or "lion", or a short string
    such as "adamw:2e-5" or "adamw:2e-5,warmup=0.2", or a `keras.optimizers.Optimizer`, which has
    its own learning rate, schedule, decay and clipping.

    Biases, norms and position embeddings have no weight decay.

    Args:
        name: str. "adamw", or an optimizer of Keras, such as "lion" or "adafactor".
        learning_rate: float. Peak learning rate. Default: that of the function, 1e-4 in `finetune`,
            5e-5 in `pretrain` and `contextualize`, 4e-5 in `stretch`.
        schedule: str. Decay of the learning rate to 0. One of "cosine" or "linear".
        warmup: float in [0, 1). Fraction of the steps that warm up the learning rate.
        weight_decay: float. Weight decay. Default: 0.01, but 0 in `stretch` and `contextualize`.
        clip: float or None. Maximum global norm of the gradients; None: no bound.
        use_ema: bool. Evaluate and save the exponential moving average of the weights. Training
            continues with the weights themselves.
        layer_decay: float in (0, 1]. For "adamw", the factor of the learning rate from each layer
            to the one below, as in ELECTRA (0.8 to 0.95). By default, all layers
            have the same.

    Example:

    >>> str(Optimizer(learning_rate=2e-5, warmup=0.2))
    'adamw:2e-05,warmup=0.2'
    """

    name: str = "adamw"
    learning_rate: float | None = None
    schedule: str = "cosine"
    warmup: float = 0.1
    weight_decay: float | None = None
    clip: float | None = 1.0
    use_ema: bool = False
    layer_decay: float | None = None

    def __post_init__(self):
        _check_name(self.name)
        if self.learning_rate is not None:
            checks.number("learning_rate", self.learning_rate, above=0)
        checks.choice("schedule", self.schedule, SCHEDULES)
        checks.number("warmup", self.warmup, least=0, below=1)
        if self.weight_decay is not None:
            checks.number("weight_decay", self.weight_decay, least=0)
        if self.clip is not None:
            checks.number("clip", self.clip, above=0)
        if self.layer_decay is not None:
            checks.number("layer_decay", self.layer_decay, above=0, most=1)
            if self.name != "adamw":
                raise ValueError(
                    f"layer_decay={self.layer_decay!r} belongs to 'adamw'. Received: "
                    f"name={self.name!r}"
                )

    @classmethod
    def of(cls, given):
        """Returns the optimizer, an `Optimizer` or one of Keras, that a value describes.

        Args:
            given: None for the default, an `Optimizer`, a str such as "lion" or "adamw:2e-5", or a
                `keras.optimizers.Optimizer`.

        Example:

        >>> Optimizer.of("lion:3e-5,weight_decay=0.1").weight_decay
        0.1
        """
        if given is None:
            return cls()
        if isinstance(given, (cls, keras.optimizers.Optimizer)):
            return given
        if isinstance(given, str):
            return cls(**_parse(given))
        raise TypeError(
            "`optimizer` must be an Optimizer, a keras.optimizers.Optimizer, or the name of one. "
            f"Received: {quote(given)}"
        )

    def filled(self, learning_rate, weight_decay):
        """Returns it with these values for what is None.

        Example:

        >>> Optimizer("lion").filled(1e-4, 0.01)
        Optimizer(name='lion', learning_rate=0.0001, weight_decay=0.01)
        """
        rate = learning_rate if self.learning_rate is None else self.learning_rate
        decay = weight_decay if self.weight_decay is None else self.weight_decay
        return dataclasses.replace(self, learning_rate=rate, weight_decay=decay)

    def make(self, model, steps):
        """Returns the optimizer of Keras for a run of so many steps; it is not built yet.

        Args:
            model: a built `keras.Model`.
            steps: int.
        """
        rate = SCHEDULES[self.schedule](self.learning_rate, steps, int(self.warmup * steps))
        if self.name == "adamw":
            rates = None if self.layer_decay is None else self._rates(model)
            return adamw(model, rate, self.weight_decay, self.clip, rates, self.use_ema)
        kind = type(keras.optimizers.get(self.name))
        none = 0.0 if issubclass(kind, keras.optimizers.AdamW) else None  # which takes no None
        optimizer = kind(
            rate,
            weight_decay=self.weight_decay or none,
            global_clipnorm=self.clip,
            use_ema=self.use_ema,
        )
        return without_decay(optimizer, model)

    def _rates(self, model):
        """The factors of the learning rate of the layers that are trained."""
        rates = rates_by_depth(model, self.layer_decay)
        paths = [variable.path for variable in model.trainable_variables]
        return {name: rates[name] for name in rates if any(name in path for path in paths)}

    def record(self):
        """Returns its values as recipe.json has them."""
        values = dict(vars(self))
        name = values.pop("name")
        return {"optimizer": None if name == "adamw" else name, **values}

    @classmethod
    def of_record(cls, record, usual):
        """Returns the optimizer that recipe.json has.

        Args:
            record: dict, the content of recipe.json.
            usual: dict, the defaults of the function; what equals them is None.
        """
        names = [field.name for field in dataclasses.fields(cls) if field.name in record]
        values = {name: record[name] for name in names}
        values |= {name: None for name in usual if values.get(name) == usual[name]}
        return cls(record.get("optimizer") or "adamw", **values)

    def __str__(self):
        fields = [field for field in dataclasses.fields(self) if field.name != "name"]
        given = {f.name: getattr(self, f.name) for f in fields}
        given = {f.name: given[f.name] for f in fields if given[f.name] != f.default}
        words = {name: str(value).lower() for name, value in given.items()}
        rate = [words.pop("learning_rate")] if "learning_rate" in words else []
        texts = [*rate, *(f"{name}={word}" for name, word in words.items())]
        return ":".join([self.name, ",".join(texts)] if texts else [self.name])


def make_optimizer(given, model, steps):
    """Makes the optimizer of a run of so many steps, not built yet.

    Of a `keras.optimizers.Optimizer`, a new one with its config is made, because that of the user
    keeps its state, and serves another run.
    """
    if isinstance(given, Optimizer):
        return given.make(model, steps)
    optimizer = type(given).from_config(given.get_config())
    without_decay(getattr(optimizer, "inner_optimizer", optimizer), model)
    return optimizer


def _former(current, given):
    """The optimizer of the arguments that functions had until version 0.4."""
    if isinstance(current, keras.optimizers.Optimizer):
        name = next(iter(given))
        raise ValueError(
            f"{name}={given[name]!r}: the optimizer object that is given has its own {name}; leave "
            "this one out, or give the optimizer by its name."
        )
    if given.get("learning_rate", 0) is None:  # the default of `stretch`
        given = {name: value for name, value in given.items() if name != "learning_rate"}
    return dataclasses.replace(Optimizer.of(current), **given)


FORMER_OPTIMIZER = Former(FORMER, _former)


def _parse(text):
    """The arguments of an `Optimizer` in its short form."""
    name, _, rest = text.partition(":")
    fields = {"name": name}
    kinds = {field.name: field.type for field in dataclasses.fields(Optimizer)}
    for number, part in enumerate(filter(None, rest.split(","))):
        key, equals, value = (each.strip() for each in part.rpartition("="))
        key = "learning_rate" if number == 0 and not equals else key
        try:
            if key not in kinds or key == "name":
                raise ValueError
            fields[key] = _value(value, kinds[key])
        except ValueError:
            raise ValueError(
                "`optimizer` must be a name, such as 'lion', or like 'adamw:2e-5' or "
                f"'adamw:2e-5,warmup=0.2'. Received: {text!r}"
            ) from None
    return fields


def _value(text, kind):
    if kind is str:
        return text
    words = {"none": None, "true": True, "false": False}
    return words[text.lower()] if text.lower() in words else float(text)


def _check_name(name):
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of an optimizer. Received: {quote(name)}")
    try:
        keras.optimizers.get(name)
    except ValueError:
        raise ValueError(
            "`optimizer` must be 'adamw', or the name of an optimizer of Keras, such as "
            f"'adafactor' or 'lion'. Received: {name!r}"
        ) from None
