import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { load } from 'js-yaml';

const root = resolve(__dirname, '../..');

interface Service {
  image?: string;
  build?: string;
  init?: boolean;
  environment?: Record<string, string>;
  depends_on?: Record<string, { condition: string }>;
  volumes?: string[];
}

/** Only read, never run: there is no container engine here. */
describe('docker-compose.yml', () => {
  const { services, volumes } = load(readFileSync(resolve(root, 'docker-compose.yml'), 'utf8')) as {
    services: Record<string, Service>;
    volumes: Record<string, null>;
  };

  it('holds the two stores, the start of the replica set, and Waymark', () => {
    expect(Object.keys(services).sort()).toEqual([
      'document-store',
      'document-store-init',
      'event-store',
      'waymark',
    ]);
  });

  it('hands Waymark the addresses of the stores it waits for', () => {
    const { environment = {}, depends_on: waits = {} } = services.waymark ?? {};
    for (const setting of ['WAYMARK_EVENTSTORE_URL', 'WAYMARK_MONGODB_URL'])
      expect(Object.keys(services)).toContain(new URL(environment[setting] ?? '').hostname);
    expect(waits).toEqual({
      'event-store': { condition: 'service_healthy' },
      'document-store-init': { condition: 'service_completed_successfully' },
    });
  });

  it('pins every image and keeps all data in named volumes', () => {
    for (const { image, build, volumes: mounted = [] } of Object.values(services)) {
      expect(image === undefined ? build : image.split(':')[1]).toMatch(/^(\.|\d+\.\d+[\w.-]*)$/);
      for (const mount of mounted) expect(Object.keys(volumes)).toContain(mount.split(':')[0]);
    }
  });

  it('runs Waymark as an ordinary user with a health check and a process that reaps', () => {
    const dockerfile = readFileSync(resolve(root, 'Dockerfile'), 'utf8');
    expect(dockerfile).toMatch(/^USER node$[^]*^HEALTHCHECK [^]*^CMD /m);
    expect(services.waymark?.init).toBe(true);
  });
});
