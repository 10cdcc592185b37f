"""What happened to a node itself, or to its journal.

There are few of them, and all that is told of brokers and routes hangs on them. ``node_events``
takes them out of the events; ``node_turns`` adds the stretches of records that are missing and says
what each of them means:

    RecordsLost, Missing   from here on the state is not sure
    StateRestated          sure again, if every group has been restated since
    NodeStarted            with no brokers: sure, whatever was before

The rules are those of ``routebook.journal.view``.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.schemas import WITNESS

TYPES = (
    "NodeStarted",
    "NodeStopped",
    "JournalRecovered",
    "RecordsLost",
    "GroupRestated",
    "StateRestated",
    "GuardReleased",
)
FIRST, MISSING = "FirstRecord", "Missing"
BREAK_RANK, RECORD_RANK = 2, 3
"""At one number records are missing first, then the node is met, then what was before is seen to
have been no time of a witness, then the record is read."""

TURNS = schemas.struct(
    **{field.name: field.dataType for field in schemas.NODE_EVENTS},
    rank=schemas.INT,  # of those with one number
    loss_seq=schemas.LONG,  # the last loss before it
    unsure_seq=schemas.LONG,  # the first loss since it was last sure
    unsure_at=schemas.TIMESTAMP,
    sure=schemas.BOOLEAN,
    settles=schemas.BOOLEAN,  # a StateRestated that makes it sure
    recovers=schemas.BOOLEAN,  # it was not sure before it
    running=schemas.BOOLEAN,
)


def record_ends(events: DataFrame) -> DataFrame:
    """``first`` and ``last`` record of each witness, with the seq and at of both."""
    ends = [
        F.struct(F.min("seq").alias("seq"), F.min_by("at", "seq").alias("at")).alias("first"),
        F.struct(F.max("seq").alias("seq"), F.max_by("at", "seq").alias("at")).alias("last"),
    ]
    return events.groupBy(*WITNESS).agg(*ends)


def node_events(
    events: DataFrame, *, ends: DataFrame, around: DataFrame, known: DataFrame
) -> DataFrame:
    """Those among ``events``, which have these ``ends``.

    ``around`` are these records and those just before them, since some say when the last one
    before it was; ``known`` are those of all before.
    """
    told = events.where(F.col("type").isin(*TYPES)).where(
        "type != 'GroupRestated' OR NOT coalesce(data.continued, false)"
    )
    before_seq = (
        F.when(F.col("type") == "NodeStarted", F.col("seq") - 1)
        .when(F.col("type") == "JournalRecovered", F.col("data.last_seq"))
        .alias("before_seq")
    )
    own = told.select(
        *WITNESS,
        "seq",
        "at",
        "type",
        "data.brokers",
        "data.groups",
        F.timestamp_millis("data.since_ms").alias("loss_at"),
        F.timestamp_millis("data.alive_ms").alias("alive_at"),
        before_seq,
    )
    wanted = own.where("before_seq IS NOT NULL").select(*WITNESS, F.col("before_seq").alias("seq"))
    before = (
        around.select(*WITNESS, "seq", "at")
        .join(F.broadcast(wanted), [*WITNESS, "seq"])
        .select(*WITNESS, F.col("seq").alias("before_seq"), F.col("at").alias("before_at"))
    )
    # It was killed at some moment after its last record, and after its last sign of life.
    alive = (F.col("alive_at") <= F.col("at")) & (
        F.col("before_at").isNull() | (F.col("alive_at") > F.col("before_at"))
    )
    first = (
        ends.select(*WITNESS, "first.*")
        .join(known.select(*WITNESS).distinct(), list(WITNESS), "left_anti")
        .withColumn("type", F.lit(FIRST))
        .withColumn("loss_at", F.col("at"))
    )
    return (
        own.join(F.broadcast(before), [*WITNESS, "before_seq"], "left")
        .withColumn("before_at", F.when(alive, F.col("alive_at")).otherwise(F.col("before_at")))
        .unionByName(first, allowMissingColumns=True)
        .select(*schemas.NODE_EVENTS.names)
    )


def node_turns(happened: DataFrame, gaps: DataFrame) -> DataFrame:
    """What all ``happened`` to some nodes, and the ``gaps`` in their records, mean.

    What is told of single groups is only counted.
    """
    missing = gaps.where("kind = 'missing'").select(
        *WITNESS,
        F.col("before_seq").alias("seq"),
        F.col("to_at").alias("at"),
        F.lit(MISSING).alias("type"),
        F.col("from_at").alias("loss_at"),
    )
    rank = F.when(F.col("type") == MISSING, 0).when(F.col("type") == FIRST, 1)
    rows = happened.unionByName(missing, allowMissingColumns=True).withColumn(
        "rank", rank.otherwise(RECORD_RANK)
    )
    told = _with_belief(_with_descent(rows))
    return told.where("type != 'GroupRestated'").select(*TURNS.names)


def _by_node() -> WindowSpec:
    return Window.partitionBy(*WITNESS).orderBy("seq", "rank")


def _with_descent(rows: DataFrame) -> DataFrame:
    """``before_at`` of a NodeStarted: when it went down, as far as anybody knows."""
    by_node = _by_node()
    type_, before = F.col("type"), F.lag("type").over(by_node)
    lost_here = (before == MISSING) & (F.lag("seq").over(by_node) == F.col("seq"))
    last_known = F.coalesce("before_at", F.when(lost_here, F.lag("loss_at").over(by_node)), "at")
    killed = (type_ == "NodeStarted") & (before == "JournalRecovered")
    return rows.withColumn(
        "before_at", F.when(type_.isin("NodeStarted", "JournalRecovered"), last_known)
    ).withColumn(
        "before_at",
        F.when(killed, F.lag("before_at").over(by_node)).otherwise(F.col("before_at")),
    )


def _with_belief(rows: DataFrame) -> DataFrame:
    type_ = F.col("type")
    # What was before the first record we have, nobody knows, unless it is the first of all.
    met_late = (type_ == FIRST) & (F.col("seq") > 1)
    loses = type_.isin("RecordsLost", MISSING) | met_late
    begins_cold = (type_ == "NodeStarted") & (F.col("brokers") == 0)
    by_node = _by_node()
    by_epoch = Window.partitionBy(*WITNESS, "epoch").orderBy("seq", "rank")
    epochs = (
        rows.withColumn("epoch", _count(loses | begins_cold).over(by_node))
        .withColumn("lost", F.first(loses).over(by_epoch))
        .withColumn("loss_seq", F.first(F.when(loses, F.col("seq"))).over(by_epoch))
        .withColumn("stated", _count(type_ == "GroupRestated").over(by_epoch))
    )
    # Fewer since the last loss are no restatement: records were lost while it was being made.
    enough = F.col("lost") & (type_ == "StateRestated") & (F.col("stated") >= F.col("groups"))
    runs = (
        F.when(type_.isin("NodeStarted", FIRST, MISSING), F.lit(True))
        .when(type_.isin("NodeStopped", "JournalRecovered"), F.lit(False))
    )  # fmt: skip
    was_sure = F.coalesce(F.lag("sure").over(by_node), F.lit(True))
    slip = F.when(loses & was_sure, F.struct("seq", "loss_at"))
    return (
        epochs.withColumn("settled", _count(enough).over(by_epoch))
        .withColumn("settles", F.coalesce(enough, F.lit(False)) & (F.col("settled") == 1))
        .withColumn("sure", ~F.col("lost") | (F.col("settled") > 0))
        .withColumn("running", F.last(runs, ignorenulls=True).over(by_node))
        .withColumn("slip", F.last(slip, ignorenulls=True).over(by_node))
        .withColumn("recovers", F.col("sure") & ~was_sure)
        .withColumns({"unsure_seq": F.col("slip.seq"), "unsure_at": F.col("slip.loss_at")})
    )


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, 1).otherwise(0))


def node_facts(turns: DataFrame) -> DataFrame:
    """A row for each node with its turning points, oldest first; small enough to be broadcast.

    ``starts`` are those of the node, with when it had gone down. ``drops`` are where groups are
    given up: all by a cold start, those not restated since the last loss by a ``StateRestated``.
    ``doubts`` are the stretches in which it was not sure, ``releases`` those of the guard.
    """
    started = F.col("type") == "NodeStarted"
    cold = started & (F.col("brokers") == 0)
    start = F.struct("seq", "at", cold.alias("cold"), F.col("before_at").alias("end_at"))
    drop = F.struct(
        "seq",
        "at",
        F.when(cold, F.col("before_at")).otherwise(F.col("unsure_at")).alias("end_at"),
        F.when(~cold, F.col("loss_seq")).alias("loss_seq"),
    )
    release = F.struct("seq", "at")
    slips = F.col("seq") == F.col("unsure_seq")
    # One after the other: only the last time may it not have recovered.
    doubts = F.transform(
        "slips",
        lambda slip, place: F.struct(
            slip["seq"].alias("from_seq"),
            F.get("recoveries", place).alias("to_seq"),
            slip["unsure_at"].alias("since_at"),
        ),
    )
    return (
        turns.groupBy(*WITNESS)
        .agg(
            _list(F.when(started, start)).alias("starts"),
            _list(F.when(cold | F.col("settles"), drop)).alias("drops"),
            _list(F.when(F.col("type") == "GuardReleased", release)).alias("releases"),
            _list(F.when(slips & ~F.col("sure"), F.struct("seq", "unsure_at"))).alias("slips"),
            _list(F.when(F.col("recovers"), F.col("seq"))).alias("recoveries"),
        )
        .select(*WITNESS, "starts", "drops", "releases", doubts.alias("doubts"))
    )


def _list(each: Column) -> Column:
    return F.array_sort(F.collect_list(each))


def doubted_since(seq: Column) -> Column:
    """Since when the node was not sure at record ``seq``; null if it was. Uses ``doubts``."""
    covering = F.filter(
        "doubts",
        lambda doubt: (
            (doubt["from_seq"] <= seq) & (doubt["to_seq"].isNull() | (seq <= doubt["to_seq"]))
        ),
    )
    return F.try_element_at(covering, F.lit(1))["since_at"]
