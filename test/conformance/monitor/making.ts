/** Subjects, batches and senders for the contracts: fields that the test gives, and sensible defaults. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createId } from '../../../src/core/ids.ts'
import type {
  ChannelRef,
  KnownSubject,
  NewDecision,
  NewNotification,
  NewSubscription,
  NotificationRecord,
  ReportBatch,
  SendingEnd,
  SendingStep,
  SubjectName,
  SubjectWrite,
} from '../../../src/monitor/monitor-store.ts'
import type { Backend, Stores } from '../../../src/storage/backend.ts'
import { aJob, longMs, until } from '../jobs/making.ts'

export { aJob, longMs, until }
/** A lease or a window that ends during a test; used only in tests of expiry. */
export const shortMs = 60

export function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

export function aSubject(name = 'court-1', source = 'gym', group = '18:00-19:00'): SubjectName {
  return { subject: hash(JSON.stringify([source, group, name])), source, group, name }
}

export function aWrite(write: Partial<SubjectWrite> = {}): SubjectWrite {
  const state = write.state === undefined ? '{"free":1}' : write.state
  return {
    ...aSubject(),
    version: 0,
    state,
    stateHash: hash(state ?? 'as it was'),
    observedAt: 1_000,
    changed: true,
    memory: '{}',
    ...write,
  }
}

export function aBatch(batch: Partial<ReportBatch> = {}): ReportBatch {
  return {
    revision: 0,
    throttles: [],
    subjects: [],
    events: [],
    reservations: [],
    decisions: [],
    notifications: [],
    jobs: [],
    ...batch,
  }
}

export function aDecision(decision: Partial<NewDecision> = {}): NewDecision {
  return {
    ...aSubject(),
    id: createId(),
    taskId: 'task-1',
    reason: 'changed',
    fromHash: hash('A'),
    toHash: hash('B'),
    fromText: '"A"',
    toText: '"B"',
    eventId: null,
    observedAt: 1_000,
    verdicts: '[]',
    ...decision,
  }
}

export function aNotification(notification: Partial<NewNotification> = {}): NewNotification {
  return {
    ...aSubject(),
    id: createId(),
    subscriptionId: 'sub-1',
    channel: hash('robot'),
    decisionId: null,
    eventId: null,
    kind: 'change',
    from: '"A"',
    to: '"B"',
    stateHash: hash('B'),
    windowMs: longMs,
    maxAttempts: 4,
    delayMs: 0,
    ...notification,
  }
}

export function aSubscription(subscription: Partial<NewSubscription> = {}): NewSubscription {
  return {
    id: createId(),
    name: 'front desk',
    match: '{"source":"gym"}',
    channel: '{"type":"webhook","url":"https://example.com/hook"}',
    options: '{}',
    ...subscription,
  }
}

export async function known({ monitor }: Stores, subject: SubjectName): Promise<KnownSubject | undefined> {
  const { subjects } = await monitor.known({ subjects: [subject.subject], throttles: [] })
  return subjects[0]
}

/** Notifications as a report writes them, each with its window reserved. Returns their ids. */
export async function notify(
  { monitor }: Stores,
  ...notifications: readonly Partial<NewNotification>[]
): Promise<readonly string[]> {
  const whole = notifications.map(aNotification)
  const { revision } = await monitor.known({ subjects: [], throttles: [] })
  const seen = new Set<string>()
  const reservations = whole
    .map(({ id, subject, subscriptionId, stateHash }) => ({
      subject,
      subscriptionId,
      stateHash,
      notificationId: id,
    }))
    .filter((one) => {
      const key = `${one.subject} ${one.subscriptionId} ${one.stateHash}`
      return seen.has(key) ? false : seen.add(key)
    })
  const answer = await monitor.write(aBatch({ revision, reservations, notifications: whole }))
  assert.deepEqual(answer, { status: 'written' })
  return whole.map(({ id }) => id)
}

/** The subject with a state, so that its windows can be read. */
export async function present({ monitor }: Stores, subject: SubjectName = aSubject()): Promise<void> {
  const { revision } = await monitor.known({ subjects: [], throttles: [] })
  const answer = await monitor.write(aBatch({ revision, subjects: [aWrite(subject)] }))
  assert.deepEqual(answer, { status: 'written' })
}

/** Takes a channel, which must be free. */
export async function take(
  { monitor }: Stores,
  {
    channel = 'robot',
    token = createId(),
    leaseMs = longMs,
  }: { readonly channel?: string; readonly token?: string; readonly leaseMs?: number } = {},
): Promise<ChannelRef> {
  const ref = { channel: hash(channel), token }
  const taken = await monitor.take({ ...ref, leaseMs })
  assert.equal(taken.taken, true, 'the channel is free')
  return ref
}

export async function due({ monitor }: Stores, ref: ChannelRef, limit = 100): Promise<readonly string[]> {
  const answer = await monitor.due(ref, limit)
  assert.ok(answer, 'the channel is ours')
  return answer.items.map(({ id }) => id)
}

export function aStep(step: Partial<SendingStep> = {}): SendingStep {
  return { leaseMs: longMs, state: null, ends: [], begin: [], ...step }
}

export function anEnd(id: string, end: Partial<SendingEnd> = {}): SendingEnd {
  return { id, outcome: 'sent', error: null, digestId: null, ...end }
}

export async function begin({ monitor }: Stores, ref: ChannelRef, ...ids: readonly string[]): Promise<void> {
  const step = aStep({ begin: ids.map((id) => ({ id, repeat: false })) })
  assert.equal(await monitor.proceed(ref, step), true)
}

/** Begins a notification and ends it. */
export async function finish(
  stores: Stores,
  ref: ChannelRef,
  id: string,
  end: Partial<SendingEnd> = {},
): Promise<void> {
  await begin(stores, ref, id)
  assert.equal(await stores.monitor.proceed(ref, aStep({ ends: [anEnd(id, end)] })), true)
}

export async function notification({ monitor }: Stores, id: string): Promise<NotificationRecord> {
  const one = await monitor.notification(id)
  assert.ok(one, `notification ${id} is there`)
  return one
}

/** The store's clock. */
export async function now({ monitor }: Stores): Promise<number> {
  return (await monitor.known({ subjects: [], throttles: [] })).now
}

/** Waits until the store's clock is past that instant. */
export async function past(stores: Backend, instant: number): Promise<void> {
  await until(`the store's clock passes ${instant}`, async () => (await now(stores)) > instant)
}
