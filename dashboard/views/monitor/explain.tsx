import { type ReactNode, useState } from 'react'
import type { MonitorClient } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Json } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { Link, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { nameOf, type Venue } from './place.tsx'
import { Story } from './story.tsx'
import { Silencing } from './subscriptions/silence-dialog.tsx'
import { Windows } from './windows.tsx'

export type Explanation = Awaited<ReturnType<MonitorClient['explain']>>

/** One venue: how it is, who will not hear of it again for a while, and what was notified of it or not, and why. */
export function Explain({ venue }: { readonly venue: Venue }): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const { cursor } = usePlace().query
  const [silences, setSilences] = useState(false)
  const explained = useLive(['monitor', 'explain', venue, cursor], () =>
    client.monitor.explain({ ...venue, limit: 50, ...(cursor ? { cursor } : {}) }),
  )
  return (
    <Page
      title={visible(nameOf(venue))}
      lead={
        <>
          <Link to="monitor" query={{ part: 'venues' }} className="monitor-back">
            {say('allVenues')}
          </Link>{' '}
          · <Text value={venue.source} />
          {venue.timeSlot !== undefined && (
            <>
              {' '}
              · <Text value={venue.timeSlot} />
            </>
          )}
        </>
      }
      actions={
        <Action scope="admin" onPress={() => setSilences(true)}>
          {say('silenceIt')}
        </Action>
      }
    >
      <Loaded query={explained}>
        {(explanation) => (
          <>
            <Present present={explanation.present} />
            {explanation.present !== null && (
              <>
                <Windows windows={explanation.windows} />
                <Section title={say('story')}>
                  {explanation.decisions.length === 0 ? (
                    <p className="aside">{say('noStory')}</p>
                  ) : (
                    <Story decisions={explanation.decisions} />
                  )}
                  <Pager next={explanation.cursor} />
                </Section>
              </>
            )}
          </>
        )}
      </Loaded>
      {silences && <Silencing venue={venue} onClose={() => setSilences(false)} />}
    </Page>
  )
}

function Present({ present }: { readonly present: Explanation['present'] }): ReactNode {
  const say = useWords(monitorWords)
  if (present === null)
    return (
      <Empty icon="monitor" title={say('neverReported')}>
        <p>{say('neverReportedNext')}</p>
      </Empty>
    )
  return (
    <Section title={say('present')}>
      <div className="card monitor-present">
        <Json value={present.state} label={say('present')} />
        <Facts
          items={[
            [say('lastChanged'), <Time key="changed" at={present.changedAt} />],
            [say('lastSeen'), <Time key="seen" at={present.observedAt} />],
          ]}
        />
      </div>
    </Section>
  )
}
