import { isSignalboxError } from '../../src/core/errors.ts'
import type { JobStore, StoreTransaction, Verdict } from '../../src/jobs/index.ts'
import type { HistoryItem, Recorder } from './history.ts'

/** The same store, writing down what it is asked and what it answers: the calls that the promises are about. */
export function recordStore(store: JobStore, recorder: Recorder): JobStore {
  const attempt = async <Answer>(
    op: 'add' | 'renew' | 'settle' | 'settleIn',
    items: readonly HistoryItem[],
    call: () => Promise<Answer>,
    answered: (answer: Answer) => readonly HistoryItem[],
  ): Promise<Answer> => {
    recorder.write({ type: 'invoke', op, items })
    try {
      const answer = await call()
      recorder.write({ type: 'ok', op, items: answered(answer) })
      return answer
    } catch (error) {
      recorder.write({ type: 'info', op, items, detail: describe(error) })
      throw error
    }
  }

  /** JobLogs the verdict when `work` has come to it, which is before anything of it can be committed. */
  const noting =
    (work: (tx: StoreTransaction) => Promise<Verdict>, noted: (item: HistoryItem) => void) =>
    async (tx: StoreTransaction): Promise<Verdict> => {
      const verdict = await work(tx)
      const item = ofVerdict(verdict)
      recorder.write({ type: 'invoke', op: 'transact', items: [item] })
      noted(item)
      return verdict
    }

  const recorded: Partial<JobStore> = {
    add: (jobs, tx) =>
      attempt(
        'add',
        jobs.map(({ id }) => ({ job: id })),
        () => store.add(jobs, tx),
        // In a caller's transaction it counts when they commit, which they write down themselves.
        (added) => (tx === undefined ? added.map(({ id }) => ({ job: id })) : []),
      ),

    async claim(request) {
      const records = await store.claim(request)
      if (records.length > 0) {
        const { leaseMs } = request
        const items = records.map(({ id, token, leaseEndsAt, attempt, handBackCount, snoozeCount }) => {
          return { job: id, token, leaseEndsAt, leaseMs, attempt, handBackCount, snoozeCount }
        })
        recorder.write({ type: 'ok', op: 'claim', items })
      }
      return records
    },

    renew: (leases, leaseMs) =>
      attempt(
        'renew',
        leases.map(({ jobId, token }) => ({ job: jobId, token })),
        () => store.renew(leases, leaseMs),
        (renewals) => renewals.map(({ jobId, token, leaseEndsAt }) => ({ job: jobId, token, leaseEndsAt })),
      ),

    settle: (verdicts) =>
      attempt(
        'settle',
        verdicts.map(ofVerdict),
        () => store.settle(verdicts),
        (took) => verdicts.map((verdict, index) => ({ ...ofVerdict(verdict), took: took[index]! })),
      ),

    settleIn: (tx, verdict) =>
      attempt(
        'settleIn',
        [ofVerdict(verdict)],
        () => store.settleIn(tx, verdict),
        (took) => [{ ...ofVerdict(verdict), took }],
      ),

    async transact(work, options) {
      let items: readonly HistoryItem[] = []
      try {
        await store.transact(
          noting(work, (item) => {
            items = [item]
          }),
          options,
        )
        recorder.write({ type: 'ok', op: 'transact', items })
      } catch (error) {
        recorder.write({ type: failure(error), op: 'transact', items, detail: describe(error) })
        throw error
      }
    },

    async transactAll(works, options) {
      const items: (HistoryItem | undefined)[] = works.map(() => undefined)
      const notified = (type: 'ok' | 'fail' | 'info', item: HistoryItem | undefined, detail: string) =>
        recorder.write({ type, op: 'transact', items: item === undefined ? [] : [item], detail })
      try {
        const answers = await store.transactAll(
          works.map((work, index) =>
            noting(work, (item) => {
              items[index] = item
            }),
          ),
          options,
        )
        for (const [index, answer] of answers.entries()) {
          notified(
            answer === undefined ? 'ok' : 'fail',
            items[index],
            answer ? describe(answer.error) : 'group',
          )
        }
        return answers
      } catch (error) {
        for (const item of items) notified('info', item, describe(error))
        throw error
      }
    },
  }

  return new Proxy(store, {
    get(target, name) {
      const method: unknown = Reflect.get(recorded, name) ?? Reflect.get(target, name)
      return typeof method === 'function' ? method.bind(target) : method
    },
  })
}

function ofVerdict({ jobId, token, state, attempt, handBackCount, snoozeCount }: Verdict): HistoryItem {
  return { job: jobId, token, state, attempt, handBackCount, snoozeCount }
}

/** Codes after which nothing can have been committed. */
function failure(error: unknown): 'fail' | 'info' {
  const certain = ['lease_lost', 'transaction_conflict', 'transaction_timeout'] as const
  return certain.some((code) => isSignalboxError(error, code)) ? 'fail' : 'info'
}

export function describe(error: unknown): string {
  if (isSignalboxError(error)) return `${error.code}: ${error.message}`.slice(0, 300)
  return String(error).slice(0, 300)
}
