/** A process of one's own that answers questions: the side that starts it, and the side that answers. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { within } from '../../../test/support/deadline.ts'
import { childFlags } from '../../measure.ts'

/** Far more than any answer takes on a slow machine. */
const answerMs = 120_000
const endMs = 10_000

interface Question {
  readonly number: number
  readonly name: string
  readonly given: unknown
}

type Answer = { readonly number: number } & ({ readonly told: unknown } | { readonly problem: string })

/** A process that answers. */
export interface Forked extends AsyncDisposable {
  readonly process: ChildProcess
  /** Rejects when the process ends first, or says that it cannot. */
  ask<Told>(name: string, given?: unknown): Promise<Told>
  /** Kills it, as by kill -9; resolves when it is gone. */
  kill(): Promise<void>
}

/** Starts a file of this folder. */
export function forked(file: string, order: unknown): Forked {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), [JSON.stringify(order)], {
    execArgv: [...childFlags],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const asked = new Map<number, PromiseWithResolvers<unknown>>()
  let lastNumber = 0
  child.on('message', (answer: Answer) => {
    const wait = asked.get(answer.number)
    asked.delete(answer.number)
    if ('told' in answer) wait?.resolve(answer.told)
    else wait?.reject(new Error(answer.problem))
  })
  child.on('exit', (code, signal) => {
    for (const { reject } of asked.values()) reject(new Error(`${file} ended with ${signal ?? code}`))
    asked.clear()
  })
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null)
      await within(endMs, `the end of ${file}`, once(child, 'exit'))
  }
  return {
    process: child,
    ask<Told>(name: string, given: unknown = null) {
      const wait = Promise.withResolvers<unknown>()
      const question: Question = { number: ++lastNumber, name, given }
      asked.set(question.number, wait)
      child.send(question, (error) => {
        if (error !== null) wait.reject(error)
      })
      return within(answerMs, `${file}: ${name}`, wait.promise as Promise<Told>)
    },
    kill,
    [Symbol.asyncDispose]: kill,
  }
}

/** What the process was started with. */
export function orderOf<Order>(): Order {
  return JSON.parse(process.argv[2]!) as Order
}

/** Answers questions by name, until the parent process is gone. */
export function answer(answers: Readonly<Record<string, (given: never) => unknown>>): void {
  process.on('message', async ({ number, name, given }: Question) => {
    try {
      process.send!({ number, told: (await answers[name]!(given as never)) ?? null })
    } catch (error) {
      process.send!({ number, problem: error instanceof Error ? error.message : String(error) })
    }
  })
  process.on('disconnect', () => process.exit())
}
