import { catalogue } from './catalogue.ts'

export const onceWords = catalogue({
  lead: {
    en: 'Keys that make an operation run once: running, done, failed or stuck.',
    zh: '确保操作只执行一次的幂等键：执行中、已完成、失败或卡住。',
  },
  guards: { en: 'Keys', zh: '幂等键' },
  key: { en: 'Key', zh: '幂等键' },
  status: { en: 'Status', zh: '状态' },
  attempt: { en: 'Attempt', zh: '尝试' },
  mode: { en: 'Mode', zh: '模式' },
  claimed: { en: 'Claimed', zh: '占用时间' },
  ends: { en: 'Ends', zh: '结束' },
  leaseEnds: { en: 'lease ends', zh: '租约到期' },
  forgottenAt: { en: 'expires', zh: '自动清除' },
  untilForgotten: { en: 'kept until deleted', zh: '需手动清除' },

  running: { en: 'running', zh: '执行中' },
  done: { en: 'done', zh: '已完成' },
  failed: { en: 'failed', zh: '失败' },
  stuck: { en: 'stuck', zh: '卡住' },
  runningMeans: {
    en: 'A caller runs it. Other callers get the answer “running”.',
    zh: '有请求正在执行，其他请求会得到“执行中”。',
  },
  doneMeans: { en: 'The next claim gets the stored result.', zh: '再次占用会得到已保存的结果。' },
  failedMeans: {
    en: 'It failed. The next claim runs it again.',
    zh: '未完成：下一次占用会重新执行。',
  },
  stuckMeans: {
    en: 'Its lease expired without an outcome. Find out whether the operation happened, then forget the key.',
    zh: '租约已到期，但没有结果。请先确认操作是否已执行，再清除该幂等键。',
  },
  'at-least-once': { en: 'at least once', zh: '至少一次' },
  'at-most-once': { en: 'at most once', zh: '至多一次' },

  space: { en: 'Kind', zh: '种类' },
  spaceOnce: { en: 'Once', zh: '一次性' },
  spaceProcessing: { en: 'Processing', zh: '处理中任务' },
  anyStatus: { en: 'Any status', zh: '全部状态' },
  search: { en: 'Part of a key', zh: '搜索幂等键' },
  clear: { en: 'Clear filters', zh: '清除筛选' },
  onPage: {
    en: { one: '{count} key on this page', other: '{count} keys on this page' },
    zh: '本页 {count} 个幂等键',
  },
  ofPage: {
    en: '{count} of the {all} keys searched',
    zh: '已查看 {all} 个，符合 {count} 个',
  },
  none: { en: 'No keys yet', zh: '还没有幂等键' },
  noneNext: {
    en: 'A key appears when it is claimed:',
    zh: '占用之后，幂等键即会出现：',
  },
  noneProcessing: { en: 'No task is being processed', zh: '当前没有处理中的任务' },
  noneProcessingNext: {
    en: 'A task is shown while it is processed:',
    zh: '任务在处理期间显示，结束后消失：',
  },
  noMatch: { en: 'No key matches these filters', zh: '没有符合条件的幂等键' },
  noMatchNext: { en: 'Open the next page, or change the filters.', zh: '请查看下一页，或修改筛选条件。' },

  byStatus: { en: 'How many keys', zh: '幂等键数量' },
  ofFirst: { en: 'of the first {count} keys', zh: '仅统计前 {count} 个幂等键' },
  countsMean: {
    en: 'What passed through this server. Claims by other servers and by library processes are not counted here.',
    zh: '仅统计经过本服务器的请求，不含其他服务器和直接使用库的进程。',
  },
  counts: { en: 'Since this server started', zh: '自服务器启动以来' },
  unique_events: { en: 'New keys', zh: '新增幂等键' },
  unique_eventsMeans: { en: 'First claims of a key.', zh: '首次占用的幂等键。' },
  duplicate_events: { en: 'Duplicates blocked', zh: '拦下的重复' },
  duplicate_eventsMeans: {
    en: 'Claims of keys that were running, done or stuck.',
    zh: '占用时幂等键已在执行、已完成或卡住。',
  },
  lock_acquired_count: { en: 'Tasks accepted', zh: '领取的任务' },
  lock_acquired_countMeans: { en: 'Tasks that a caller started to process.', zh: '成功领取处理的任务。' },
  lock_rejected_count: { en: 'Tasks rejected', zh: '拒绝的任务' },
  lock_rejected_countMeans: {
    en: 'Tasks that another caller was processing.',
    zh: '已有他人在处理的任务。',
  },
  notification_dedup: { en: 'Duplicates not notified', zh: '未通知的重复' },
  notification_dedupMeans: {
    en: 'States that were already notified within their window.',
    zh: '时间窗口内已通知过的状态。',
  },
  degraded: { en: 'Degraded answers', zh: '降级应答' },
  degradedMeans: {
    en: 'The store did not answer, so the configured policy decided.',
    zh: '存储没有响应，由预设策略应答。',
  },

  forget: { en: 'Forget', zh: '清除' },
  selectFirst: { en: 'Select keys first', zh: '请先选择幂等键' },
  forgetSome: {
    en: { one: 'Forget {count} key?', other: 'Forget {count} keys?' },
    zh: '清除 {count} 个幂等键？',
  },
  forgetMeans: {
    en: 'The next claim runs the operation again, even if it is done or still running. Stored results are deleted.',
    zh: '下一次占用将重新执行，即使已完成或仍有人在执行。已保存的结果会丢失。',
  },
  forgotSome: {
    en: { one: '{count} key forgotten', other: '{count} keys forgotten' },
    zh: '已清除 {count} 个幂等键',
  },
})
