# One image for all daemons and tools: docker run aiorocketmq mqnamesrv | mqbroker ... | mqadmin ...
FROM python:3.12-slim

COPY . /src
RUN pip install --no-cache-dir "/src[fast]" && rm -rf /src

# The daemons keep their data below the home directory: ~/store, ~/namesrv.
RUN useradd --create-home rocketmq
COPY --chown=rocketmq conf /opt/rocketmq/conf
ENV ROCKETMQ_HOME=/opt/rocketmq PYTHONUNBUFFERED=1

USER rocketmq
WORKDIR /home/rocketmq
RUN mkdir store namesrv
VOLUME ["/home/rocketmq/store", "/home/rocketmq/namesrv"]

# Name server; broker, its VIP port (listenPort - 2) and replication (listenPort + 1).
EXPOSE 9876 10909 10911 10912
CMD ["mqnamesrv"]
