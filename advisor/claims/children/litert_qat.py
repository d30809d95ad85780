"""Accuracy lost by int8 in LiteRT on scikit-learn's digits: quantized after training, and trained with the rounding (QAT).

Quantization-aware training puts TensorFlow's fake quantization behind the weights and the activations and goes on training; the
rounded weights are then what is converted. Both are judged on the held-out half against the network in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from advisor.claims.children._answer import answer
from advisor.claims.children.real_int8 import loss

EPOCHS, FINE, BATCH = 12, 4, 64
#: The largest activation that eight bits are spread over while training; ReLU6 of Howard et al. 2017.
CEILING = 6.0


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the loss of accuracy of post-training int8 and of quantization-aware training."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    seed = int(arguments["seed"]) % 2**31
    tf.keras.utils.set_random_seed(seed)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    x, test_x, y, test_y = train_test_split(images, labels, test_size=0.5, random_state=seed, stratify=labels)
    weights = _weights(tf)
    _train(tf, weights, lambda batch: _forward(tf, weights, batch), x, y, EPOCHS)
    wide = _forward(tf, weights, tf.constant(test_x)).numpy().argmax(1) == test_y
    after = _right(tf, lambda batch: _forward(tf, weights, batch), x, test_x, test_y)
    _train(tf, weights, lambda batch: _forward(tf, weights, batch, rounded=True), x, y, FINE)
    aware = _right(tf, lambda batch: _forward(tf, weights, batch, rounded=True), x, test_x, test_y)
    return [loss("digits, post-training int8", wide, after), loss("digits, quantization-aware training", wide, aware)]


def _weights(tf: Any) -> list[Any]:
    start = tf.keras.initializers.HeNormal()
    shapes = [(3, 3, 1, 16), (3, 3, 16, 32), (512, 64), (64, 10)]
    return [tf.Variable(start(shape)) for shape in shapes] + [tf.Variable(tf.zeros(shape[-1])) for shape in shapes]


def _forward(tf: Any, weights: list[Any], x: Any, *, rounded: bool = False) -> Any:
    def narrow(weight: Any) -> Any:
        most = tf.reduce_max(tf.abs(weight))
        return tf.quantization.fake_quant_with_min_max_vars(weight, -most, most, narrow_range=True) if rounded else weight

    def active(value: Any) -> Any:
        value = tf.nn.relu6(value)
        return tf.quantization.fake_quant_with_min_max_args(value, 0.0, CEILING) if rounded else value

    kernels, biases = weights[:4], weights[4:]
    for kernel, bias in zip(kernels[:2], biases[:2], strict=True):
        x = active(tf.nn.conv2d(x, narrow(kernel), 1, "SAME") + bias)
    x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), (-1, 512))
    x = active(tf.matmul(x, narrow(kernels[2])) + biases[2])
    return tf.matmul(x, narrow(kernels[3])) + biases[3]


def _train(tf: Any, weights: list[Any], network: Callable[[Any], Any], x: Any, y: Any, epochs: int) -> None:
    optimizer = tf.keras.optimizers.Adam(2e-3)
    optimizer.build(weights)

    @tf.function
    def step(batch: Any, target: Any) -> None:
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, network(batch)))
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))

    data = tf.data.Dataset.from_tensor_slices((x, y.astype("int32"))).shuffle(len(x), seed=1).batch(BATCH, drop_remainder=True)
    for _ in range(epochs):
        for batch, target in data:
            step(batch, target)


def _right(tf: Any, network: Callable[[Any], Any], x: Any, test_x: Any, test_y: Any) -> Any:
    """Convert ``network`` to int8, calibrated on training images, and return which test samples it gets right."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    concrete = tf.function(network).get_concrete_function(tf.TensorSpec((1, 8, 8, 1), tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x[index : index + 1]] for index in range(128))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    interpreter = Interpreter(model_content=converter.convert(), num_threads=1)
    interpreter.allocate_tensors()
    entry, exit_ = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    found = []
    for sample in test_x:
        interpreter.set_tensor(entry, sample[None])
        interpreter.invoke()
        found.append(int(interpreter.get_tensor(exit_)[0].argmax()))
    return np.array(found) == test_y


if __name__ == "__main__":
    answer(measure)
