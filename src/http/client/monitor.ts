import {
  createSilence,
  type ExplainQuery,
  endSilence,
  explainSubject,
  type ListDecisionsQuery,
  type ListNotificationsQuery,
  type ListSubjectsQuery,
  listDecisions,
  listNotifications,
  listSilences,
  listSubjects,
  listSubscriptions,
  type Replayed,
  type ReportBody,
  replayNotification,
  reportChanges,
  type ShapeOf,
  type SilenceBody,
  type SubscribeBody,
  subscribe,
  type TestChannelBody,
  type TestChannelReply,
  testChannel,
  unsubscribe,
} from '../contract/index.ts'
import type { Client } from './client.ts'

type Reply<R> = ShapeOf<R>['reply']

/** The verbs of the monitor, over HTTP. */
export interface MonitorClient {
  /** Said again after a lost answer it may be a `duplicate`: it was done then. */
  report(report: ReportBody): Promise<Reply<typeof reportChanges>>
  subscribe(subscription: SubscribeBody): Promise<Reply<typeof subscribe>>
  /** Throws `not_found`. */
  unsubscribe(id: string): Promise<void>
  subscriptions(): Promise<Reply<typeof listSubscriptions>['items']>
  silence(silence: SilenceBody): Promise<Reply<typeof createSilence>>
  /** Throws `not_found`. */
  unsilence(id: string): Promise<void>
  silences(): Promise<Reply<typeof listSilences>['items']>
  explain(query: ExplainQuery): Promise<Reply<typeof explainSubject>>
  decisions(query?: ListDecisionsQuery): Promise<Reply<typeof listDecisions>>
  notifications(query?: ListNotificationsQuery): Promise<Reply<typeof listNotifications>>
  replay(id: string): Promise<Replayed>
  subjects(query?: ListSubjectsQuery): Promise<Reply<typeof listSubjects>>
  /** Sends a test message through a channel now. */
  test(channel: TestChannelBody['channel']): Promise<TestChannelReply>
}

export function createMonitorClient(client: Pick<Client, 'call'>): MonitorClient {
  return {
    report: (body) => client.call(reportChanges, { body, maxReplyBytes: reportBytes }),
    subscribe: (body) => client.call(subscribe, { body }),
    async unsubscribe(id) {
      await client.call(unsubscribe, { params: { id } })
    },
    subscriptions: async () => (await client.call(listSubscriptions, { maxReplyBytes: listBytes })).items,
    silence: (body) => client.call(createSilence, { body }),
    async unsilence(id) {
      await client.call(endSilence, { params: { id } })
    },
    silences: async () => (await client.call(listSilences, { maxReplyBytes: listBytes })).items,
    explain: (query) => client.call(explainSubject, { query, maxReplyBytes: listBytes }),
    decisions: (query = {}) => client.call(listDecisions, { query, maxReplyBytes: listBytes }),
    notifications: (query = {}) => client.call(listNotifications, { query, maxReplyBytes: listBytes }),
    replay: (id) => client.call(replayNotification, { params: { id } }),
    subjects: (query = {}) => client.call(listSubjects, { query, maxReplyBytes: listBytes }),
    test: (channel) => client.call(testChannel, { body: { channel } }),
  }
}

/** All changes of a report, with the states before and after. */
const reportBytes = 40 * 1_048_576
/** 500 notifications with two states of 256 KiB each are more than anybody reads; lists are asked for in smaller pages. */
const listBytes = 64 * 1_048_576
