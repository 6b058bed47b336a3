"""A program that uses both formats over Spark Connect: ``<remote> <name server> <topic>``. What it
found is printed as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from aiorocketmq.spark_connector.payload import infer_json_schema, json_columns, to_json_body


def main(remote: str, namesrv: str, topic: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    where = {"nameServer": namesrv, "topic": topic}
    numbers = to_json_body(spark.range(20).withColumnRenamed("id", "number"))
    numbers.write.format("rocketmq").mode("append").options(**where).save()
    read = spark.read.format("rocketmq").options(**where).load()
    schema = infer_json_schema(read)
    stream = spark.readStream.format("rocketmq").options(startingOffsets="earliest", **where)
    query = (
        json_columns(stream.load(), schema)
        .writeStream.format("memory")
        .queryName("numbers")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    view = (
        f"CREATE TEMPORARY VIEW v USING rocketmq OPTIONS (nameServer '{namesrv}', topic '{topic}')"
    )
    spark.sql(view)
    spark.sql("INSERT INTO v (body, tags) VALUES (X'41', 't')")
    inserted = spark.sql("SELECT * FROM v WHERE tags = 't'").collect()
    found = {
        "kind": type(spark).__module__,
        "schema": schema.simpleString(),
        "numbers": sorted(row.number for row in json_columns(read, schema).collect()),
        "streamed": spark.table("numbers").count(),
        "inserted": [bytes(row.body).decode() for row in inserted],
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
