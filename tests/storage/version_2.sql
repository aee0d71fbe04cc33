-- The tables of version 2 as they were made at the time, with two studies half-way and one that was put away.
CREATE TABLE bestarm_schema (version INTEGER NOT NULL, PRIMARY KEY (version)){rowless};
CREATE TABLE bestarm_studies (study {serial}, name TEXT NOT NULL, seed BIGINT NOT NULL, created {double} NOT NULL, archived {double}, revision INTEGER NOT NULL, by_arrival SMALLINT DEFAULT '0' NOT NULL, "plan" TEXT NOT NULL, UNIQUE (name));
CREATE TABLE bestarm_arrivals (study INTEGER NOT NULL, last BIGINT NOT NULL, PRIMARY KEY (study), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE TABLE bestarm_events (event {serial}, study INTEGER NOT NULL, kind TEXT NOT NULL, test BIGINT, holder TEXT NOT NULL, detail TEXT NOT NULL, time {double} NOT NULL, FOREIGN KEY(study) REFERENCES bestarm_studies (study));
CREATE INDEX ix_bestarm_events_study ON bestarm_events (study);
CREATE TABLE bestarm_former_holders (study INTEGER NOT NULL, test BIGINT NOT NULL, holder TEXT NOT NULL, PRIMARY KEY (study, test, holder), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE TABLE bestarm_queue (study INTEGER NOT NULL, test BIGINT NOT NULL, holder TEXT NOT NULL, expires {double} NOT NULL, attempts INTEGER NOT NULL, since {double} DEFAULT '0' NOT NULL, lease {double}, silent {double}, due {double}, aside TEXT, reason TEXT, request TEXT, PRIMARY KEY (study, test), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE INDEX bestarm_queue_by_request ON bestarm_queue (study, request) WHERE request IS NOT NULL;
CREATE INDEX bestarm_queue_by_time ON bestarm_queue (study, expires);
CREATE TABLE bestarm_requests (study INTEGER NOT NULL, request TEXT NOT NULL, what TEXT NOT NULL, first BIGINT NOT NULL, number BIGINT NOT NULL, digest TEXT NOT NULL, time {double} NOT NULL, PRIMARY KEY (study, request), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE TABLE bestarm_rounds (study INTEGER NOT NULL, round BIGINT NOT NULL, first BIGINT NOT NULL, tests TEXT NOT NULL, PRIMARY KEY (study), FOREIGN KEY(study) REFERENCES bestarm_studies (study));
CREATE TABLE bestarm_sources (study INTEGER NOT NULL, source TEXT NOT NULL, PRIMARY KEY (study, source), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE TABLE bestarm_tests (study INTEGER NOT NULL, test BIGINT NOT NULL, round BIGINT NOT NULL, ends SMALLINT NOT NULL, arm INTEGER NOT NULL, metric INTEGER NOT NULL, given SMALLINT NOT NULL, issued {double} NOT NULL, PRIMARY KEY (study, test), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE TABLE bestarm_outcomes (study INTEGER NOT NULL, test BIGINT NOT NULL, correction INTEGER NOT NULL, value {double}, reason TEXT, holder TEXT NOT NULL, told {double} NOT NULL, arrival BIGINT, PRIMARY KEY (study, test, correction), FOREIGN KEY(study, test) REFERENCES bestarm_tests (study, test)){rowless};
CREATE INDEX bestarm_outcomes_by_arrival ON bestarm_outcomes (study, arrival) WHERE arrival IS NOT NULL;
CREATE INDEX bestarm_outcomes_by_time ON bestarm_outcomes (study, told);
INSERT INTO bestarm_schema (version) VALUES (2);
INSERT INTO bestarm_studies (name, seed, created, archived, revision, by_arrival, plan) VALUES ('old', 3, 1794857917.2553744, NULL, 1, 0, '{
  "name": "old",
  "delta": 0.001,
  "policy": "certify",
  "bound": "paper",
  "objective": {
    "metric": "gain",
    "goal": "maximize",
    "noise": {
      "gaussian": 1.0
    },
    "cost": 1.0,
    "tolerance": 0.0
  },
  "constraints": [
    {
      "metric": "risk",
      "noise": {
        "gaussian": 1.0
      },
      "at_most": 0.0,
      "cost": 1.0,
      "slack": 0.0,
      "weight": 1.0
    }
  ],
  "arms": [
    {
      "name": "safe",
      "weight": 1.0
    },
    {
      "name": "bold",
      "weight": 1.0
    },
    {
      "name": "poor",
      "weight": 1.0
    }
  ]
}');
INSERT INTO bestarm_studies (name, seed, created, archived, revision, by_arrival, plan) VALUES ('by arrival', 0, 1794857917.3352325, NULL, 1, 1, '{
  "name": "by arrival",
  "delta": 0.001,
  "policy": "certify",
  "bound": "paper",
  "order": "arrival",
  "objective": {
    "metric": "gain",
    "goal": "maximize",
    "noise": {
      "gaussian": 1.0
    },
    "cost": 1.0,
    "tolerance": 0.0
  },
  "constraints": [
    {
      "metric": "risk",
      "noise": {
        "gaussian": 1.0
      },
      "at_most": 0.0,
      "cost": 1.0,
      "slack": 0.0,
      "weight": 1.0
    }
  ],
  "arms": [
    {
      "name": "safe",
      "weight": 1.0
    },
    {
      "name": "bold",
      "weight": 1.0
    },
    {
      "name": "poor",
      "weight": 1.0
    }
  ]
}');
INSERT INTO bestarm_studies (name, seed, created, archived, revision, by_arrival, plan) VALUES ('put away', 0, 1794857917.6340103, 1794857917.6383882, 0, 0, '{
  "name": "put away",
  "delta": 0.001,
  "policy": "certify",
  "bound": "paper",
  "objective": {
    "metric": "gain",
    "goal": "maximize",
    "noise": {
      "gaussian": 1.0
    },
    "cost": 1.0,
    "tolerance": 0.0
  },
  "constraints": [
    {
      "metric": "risk",
      "noise": {
        "gaussian": 1.0
      },
      "at_most": 0.0,
      "cost": 1.0,
      "slack": 0.0,
      "weight": 1.0
    }
  ],
  "arms": [
    {
      "name": "safe",
      "weight": 1.0
    },
    {
      "name": "bold",
      "weight": 1.0
    },
    {
      "name": "poor",
      "weight": 1.0
    }
  ]
}');
INSERT INTO bestarm_arrivals (study, last) VALUES (2, 0);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (1, 'created', NULL, '', '', 1794857917.2553744);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (2, 'created', NULL, '', '', 1794857917.3352325);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (1, 'failed', 6, 'ann', 'power cut', 1794857917.480234);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (2, 'failed', 6, 'ann', 'power cut', 1794857917.591994);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (3, 'created', NULL, '', '', 1794857917.6340103);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (3, 'archived', NULL, 'ann', '', 1794857917.6383882);
INSERT INTO bestarm_queue (study, test, holder, expires, attempts, since, lease, silent, due, aside, reason, request) VALUES (1, 6, 'ann', {infinity}, 2, 1794857917.491328, NULL, NULL, 1795117117.491328, NULL, NULL, '62471e4be4e049b0b0901367a2d84ffe');
INSERT INTO bestarm_queue (study, test, holder, expires, attempts, since, lease, silent, due, aside, reason, request) VALUES (1, 7, 'ann', {infinity}, 1, 1794857917.397768, NULL, NULL, 1795117117.397768, NULL, NULL, '53b57c5ea0514f069deaabbec89c1a43');
INSERT INTO bestarm_queue (study, test, holder, expires, attempts, since, lease, silent, due, aside, reason, request) VALUES (1, 10, 'ann', {infinity}, 1, 1794857917.5183702, NULL, NULL, 1795117117.5183702, NULL, NULL, '62471e4be4e049b0b0901367a2d84ffe');
INSERT INTO bestarm_queue (study, test, holder, expires, attempts, since, lease, silent, due, aside, reason, request) VALUES (2, 6, 'ann', {infinity}, 2, 1794857917.6109972, NULL, NULL, 1795117117.6109972, NULL, NULL, '4f1350b45c8042038c5231770ab8e138');
INSERT INTO bestarm_queue (study, test, holder, expires, attempts, since, lease, silent, due, aside, reason, request) VALUES (2, 7, 'ann', {infinity}, 1, 1794857917.5494423, NULL, NULL, 1795117117.5494423, NULL, NULL, '9bf1de324cfc4bfda9d5e92a05914306');
INSERT INTO bestarm_queue (study, test, holder, expires, attempts, since, lease, silent, due, aside, reason, request) VALUES (2, 10, 'ann', {infinity}, 1, 1794857917.6268609, NULL, NULL, 1795117117.6268609, NULL, NULL, '4f1350b45c8042038c5231770ab8e138');
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (1, '0cff53e8419f436297b2dcc6ef38cfc6', 'fail', 6, 1, '6', 1794857917.480234);
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (1, '262ab31dba604475a8f5ce948000b424', 'create', 0, 0, '', 1794857917.2553744);
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (1, 'k1', 'add', 8, 2, '81f0f5f81bee9ada386d449e9e189a71f4afaa6fbb7aa53507c6c43c8e0cb78e', 1794857917.4723523);
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (2, 'c18abca75a5d4755961cc892f8ea275f', 'fail', 6, 1, '6', 1794857917.591994);
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (2, 'd8e7fd0c2a0841e1b9b96881493fbb1c', 'create', 0, 0, '', 1794857917.3352325);
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (2, 'k1', 'add', 8, 2, '81f0f5f81bee9ada386d449e9e189a71f4afaa6fbb7aa53507c6c43c8e0cb78e', 1794857917.5849168);
INSERT INTO bestarm_requests (study, request, what, first, number, digest, time) VALUES (3, '576a97ba33b046748d532d316d826542', 'create', 0, 0, '', 1794857917.6340103);
INSERT INTO bestarm_rounds (study, round, first, tests) VALUES (1, 4, 10, '[[1, 1, 0], [2, 0, 0], [0, 1, 1]]');
INSERT INTO bestarm_rounds (study, round, first, tests) VALUES (2, 4, 10, '[[1, 1, 0], [2, 0, 0], [0, 1, 1]]');
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 1, 1, 0, 0, 0, 0, 1794857917.382505);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 2, 1, 0, 0, 1, 0, 1794857917.382505);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 3, 1, 0, 1, 0, 0, 1794857917.382505);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 4, 1, 0, 1, 1, 0, 1794857917.382505);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 5, 1, 0, 2, 0, 0, 1794857917.382505);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 6, 1, 1, 2, 1, 0, 1794857917.382505);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 7, 2, 0, 0, 0, 0, 1794857917.397768);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 8, 3, 0, 0, 0, 1, 1794857917.4723523);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 9, 3, 1, 2, 1, 1, 1794857917.4723523);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (1, 10, 4, 0, 1, 1, 0, 1794857917.5183702);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 1, 1, 0, 0, 0, 0, 1794857917.535866);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 2, 1, 0, 0, 1, 0, 1794857917.535866);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 3, 1, 0, 1, 0, 0, 1794857917.535866);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 4, 1, 0, 1, 1, 0, 1794857917.535866);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 5, 1, 0, 2, 0, 0, 1794857917.535866);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 6, 1, 1, 2, 1, 0, 1794857917.535866);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 7, 2, 0, 0, 0, 0, 1794857917.5494423);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 8, 3, 0, 0, 0, 1, 1794857917.5849168);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 9, 3, 1, 2, 1, 1, 1794857917.5849168);
INSERT INTO bestarm_tests (study, test, round, ends, arm, metric, given, issued) VALUES (2, 10, 4, 0, 1, 1, 0, 1794857917.6268609);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 1, 0, 2.346, NULL, 'ann', 1794857917.4264836, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 2, 0, -1.311, NULL, 'ann', 1794857917.4361413, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 2, 1, -1.25, 'typing', 'ann', 1794857917.460788, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 3, 0, 6.041, NULL, 'ann', 1794857917.440089, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 4, 0, 0.848, NULL, 'ann', 1794857917.444062, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 5, 0, -0.802, NULL, 'ann', 1794857917.448082, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 8, 0, 2.125, NULL, 'ann', 1794857917.4723523, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (1, 9, 0, -1.5, NULL, 'ann', 1794857917.4723523, NULL);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 1, 0, 2.346, NULL, 'ann', 1794857917.5602276, 1);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 2, 0, -1.311, NULL, 'ann', 1794857917.5683784, 2);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 2, 1, -1.25, 'typing', 'ann', 1794857917.5773933, 2);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 3, 0, 6.041, NULL, 'ann', 1794857917.572263, 3);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 4, 0, 0.848, NULL, 'ann', 1794857917.5733194, 4);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 5, 0, -0.802, NULL, 'ann', 1794857917.5742142, 5);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 8, 0, 2.125, NULL, 'ann', 1794857917.5849168, 6);
INSERT INTO bestarm_outcomes (study, test, correction, value, reason, holder, told, arrival) VALUES (2, 9, 0, -1.5, NULL, 'ann', 1794857917.5849168, 7)
