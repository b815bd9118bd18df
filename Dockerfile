# Signalbox with its dashboard and the drivers of every engine. docs/packaging.md says how to run it.
#
#   docker build -t signalbox .
#   docker run -d --name signalbox -p 127.0.0.1:7420:7420 -v signalbox:/data signalbox
#
# Any image with Node 24 and npm will do, such as one of your own registry. A tag may move; for builds that are always the
# same give the image by its digest:
#
#   docker build --build-arg NODE_IMAGE=node:24-slim@sha256:… -t signalbox .
ARG NODE_IMAGE=node:24-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build
# First what says which packages there are: they are installed anew only when that changed.
COPY package.json package-lock.json .npmrc ./
# The image has its Node: the workspace that brings one to a checkout is left out.
RUN npm ci --workspaces=false
COPY tsconfig.json tsconfig.build.json ./
COPY tools tools
COPY dashboard dashboard
COPY src src
RUN npm run build
# What runs needs: the dependencies and the drivers, at the versions of the lockfile, and nothing else.
COPY packaging/docker packaging/docker
RUN node packaging/docker/drivers.ts && npm prune --omit=dev --omit=optional --workspaces=false

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="Signalbox" \
      org.opencontainers.image.licenses="Apache-2.0"
# Reached from outside of the container, so a token is needed: start.ts makes one where none was given.
ENV NODE_ENV=production \
    SIGNALBOX_HOST=0.0.0.0 \
    SIGNALBOX_ALLOWED_HOSTS=localhost,127.0.0.1 \
    SIGNALBOX_DATABASE=sqlite:/data/signalbox.db \
    SIGNALBOX_QUIET_HEALTH=true
WORKDIR /app
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY package.json LICENSE ./
COPY packaging/docker packaging/docker
RUN ln -s /app/dist/cli/main.js /usr/local/bin/signalbox && mkdir -m 0700 /data && chown 1000:1000 /data
# By number, so that whoever runs it can tell that it is not root.
USER 1000:1000
WORKDIR /data
VOLUME /data
EXPOSE 7420
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["node", "/app/packaging/docker/healthcheck.ts"]
# In this form no shell stands between Docker and the server: signals reach it.
ENTRYPOINT ["node", "/app/packaging/docker/start.ts"]
CMD ["serve"]
