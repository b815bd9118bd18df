import type { WebhookChannel } from 'signalbox/monitor'
import type { ReportAnswer } from '../../../src/monitor/index.ts'

/** What the processes that report and send are given, where they report, and what they write down. */
export interface NotifyingProcessOptions {
  readonly role: 'reporter' | 'sender'
  readonly url: string
  readonly folder: string
  readonly name: string
  readonly seed: number
  /** The longest pause between two reports. */
  readonly pauseMs: number
  /** Where a guest of a moment is notified. */
  readonly guest: WebhookChannel
}

/** What a reporter was answered. */
export type NotifyingEvent =
  | (Pick<ReportAnswer, 'changes' | 'suppressed' | 'failed'> & {
      readonly type: 'reported'
      readonly source: string
    })
  | { readonly type: 'failed'; readonly error: string }
  | { readonly type: 'rules' }

/** Venues of `gym` have a new state each time; those of `hall` one of three, so that states return. */
export const venueCounts = { gym: 40, hall: 15 } as const
export const hallStates = ['free', 'busy', 'shut'] as const
