import type { SignalboxError } from '../../../core/errors.ts'
import { problemOf } from '../../contract/index.ts'
import type { OutgoingText } from '../call.ts'
import { answerHeaders, problemHeadersOf } from './problem.ts'

/** What goes back, ready to be written. Headers that do not depend on the answer are made once. */

const jsonHeaders: Readonly<Record<string, string>> = Object.freeze({
  ...answerHeaders,
  'content-type': 'application/json; charset=utf-8',
})

/** Of a stream: nothing on the way may hold back, change or keep what it tells. */
export const streamHeaders: Readonly<Record<string, string>> = Object.freeze({
  ...answerHeaders,
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
})

export function replyJson(status: number, body: unknown): OutgoingText {
  return { status, headers: jsonHeaders, body: JSON.stringify(body) }
}

export function replyText(status: number, type: string, text: string): OutgoingText {
  return { status, headers: { ...answerHeaders, 'content-type': type }, body: text }
}

/** The problem document of an error, with the headers that belong to its code. */
export function replyProblem(error: SignalboxError): OutgoingText {
  const problem = problemOf(error)
  return { status: problem.status, headers: problemHeadersOf(error), body: JSON.stringify(problem) }
}
