# One image for all daemons and tools: docker run aiorocketmq mqnamesrv | mqbroker ... | mqadmin ...
FROM python:3.12 AS build
COPY . /src
RUN pip install --no-cache-dir --no-compile --prefix=/installed /src

FROM python:3.12-slim
COPY --from=build /installed /usr/local

# The daemons keep their data below the home directory: ~/store, ~/namesrv.
RUN useradd --create-home rocketmq && install -d -o rocketmq /opt/rocketmq /home/rocketmq/store /home/rocketmq/namesrv
COPY --chown=rocketmq conf /opt/rocketmq/conf
ENV ROCKETMQ_HOME=/opt/rocketmq PYTHONUNBUFFERED=1

USER rocketmq
WORKDIR /home/rocketmq
VOLUME ["/home/rocketmq/store", "/home/rocketmq/namesrv"]

# Name server; broker, its VIP port (listenPort - 2), the one for slaves (listenPort + 1), that of dLegerPeers.
EXPOSE 9876 10909 10911 10912 40911
CMD ["mqnamesrv"]
