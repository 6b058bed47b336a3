# One image for all daemons and tools: docker run aiorocketmq mqnamesrv | mqbroker ... | mqadmin ...
FROM python:3.12 AS build
COPY . /src
RUN pip install --no-cache-dir --no-compile --prefix=/installed '/src[prometheus]'

FROM python:3.12-slim
COPY --from=build /installed /usr/local

# Python's images come without bytecode, and who is not root cannot write any: every start would compile all that it imports.
# By the content's hash, which is not looked at again: times of files do not survive every copy of a layer.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/(pip|idlelib|lib2to3|test)/' \
    "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"

# The daemons keep their data below the home directory: ~/store, ~/namesrv. Kubernetes wants a number to see that it is not root.
RUN useradd --uid 1000 --create-home rocketmq \
    && install -d -o rocketmq /opt/rocketmq /home/rocketmq/store /home/rocketmq/namesrv
COPY --chown=rocketmq conf /opt/rocketmq/conf
ENV ROCKETMQ_HOME=/opt/rocketmq PYTHONUNBUFFERED=1

USER 1000:1000
WORKDIR /home/rocketmq
VOLUME ["/home/rocketmq/store", "/home/rocketmq/namesrv"]

# Name server; broker, its VIP port (listenPort - 2), the one for slaves (listenPort + 1), that of dLegerPeers; metrics, where
# prometheusPort says so (docs/operations.md, Metrics).
EXPOSE 9876 10909 10911 10912 40911 5557
STOPSIGNAL SIGTERM
CMD ["mqnamesrv"]

# docker build --build-arg VERSION=1.0.0 --build-arg REVISION=$(git rev-parse HEAD) -t aiorocketmq .
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="aiorocketmq" \
    org.opencontainers.image.description="Apache RocketMQ's name server, broker and tools, in Python" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
