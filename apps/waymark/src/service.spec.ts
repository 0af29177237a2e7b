import { runService } from './service.js';

describe('a service that runs alone', () => {
  const send = process.send?.bind(process);
  beforeEach(() => {
    delete process.send;
  });
  afterEach(() => {
    if (send) process.send = send;
    process.removeAllListeners('SIGTERM');
    process.removeAllListeners('SIGINT');
  });

  it('P86: is closed once, however often it is told to stop', async () => {
    let closed = 0;
    const announced = jest.fn();
    const ended = runService(
      () => Promise.resolve({ ready: 'here', close: async () => void (closed += 1) }),
      announced,
    );
    process.emit('SIGTERM');
    process.emit('SIGTERM');
    process.emit('SIGINT');
    await ended;
    process.emit('SIGTERM');
    expect(closed).toBe(1);
    expect(announced.mock.calls).toEqual([['here']]);
  });

  it('fails with the error that kept it from beginning', async () => {
    await expect(runService(() => Promise.reject(new Error('no disk')), jest.fn())).rejects.toThrow(
      'no disk',
    );
  });
});
