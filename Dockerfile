FROM node:20-bookworm-slim

WORKDIR /waymark
COPY package.json package-lock.json ./
COPY bin/package.json bin/
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build && mkdir /data && chown node:node /data

USER node
ENV WAYMARK_HOST=0.0.0.0 WAYMARK_DATA=/data
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=6 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:3000/health/ready').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/apps/waymark/src/main.js", "start"]
