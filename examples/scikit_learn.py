# A scikit-learn classifier that keeps learning, with new classes at any time.
#
#     pip install 'evenhand[sklearn]'
#     python examples/scikit_learn.py
#
# The handwritten digits that come with scikit-learn: 1797 images of 8 x 8 pixels, as rows of 64 numbers.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand.adapters.sklearn import EvenhandClassifier

x, y = load_digits(return_X_y=True)

# An estimator like any other: clones, pipelines, cross-validation, searches. `fit` shows every sample once, in random
# order, so small data want some iterations of each batch. Plain SGD wants features of about 1, hence the scaler.
model = make_pipeline(StandardScaler(), EvenhandClassifier(iterations=3))
scores = cross_val_score(model, x, y, cv=5)
print(f"cross-validated: {100 * scores.mean():.1f} %")

# What `fit` cannot do: digits come two at a time, and the past is gone but for 200 samples in the memory. A pipeline
# has no partial_fit, so its steps are called by hand; the scaler has to be fitted before the first sample is learned.
x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
scaler = StandardScaler().fit(x_train[y_train < 2])
x_train, x_test = scaler.transform(x_train), scaler.transform(x_test)

even = EvenhandClassifier(memory=200)
other = SGDClassifier(loss="log_loss", random_state=0)
for digit in range(0, 10, 2):
    now = np.isin(y_train, (digit, digit + 1))
    even.partial_fit(x_train[now], y_train[now])
    other.partial_fit(x_train[now], y_train[now], classes=np.arange(10))  # has to know all classes in advance
    seen = y_test < digit + 2
    both = [100 * each.score(x_test[seen], y_test[seen]) for each in (other, even)]
    print(f"digits 0 to {digit + 1}: SGDClassifier {both[0]:.1f} %, EvenhandClassifier {both[1]:.1f} %")

# learner_ is the learner itself: save it without pickle, or ask it for more.
even.learner_.save("digits.safetensors")
