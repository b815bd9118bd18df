import { catalogue } from './catalogue.ts'

export const jobsWords = catalogue({
  state: { en: 'State', zh: '状态' },
  anyState: { en: 'Any state', zh: '全部状态' },
  queue: { en: 'Queue', zh: '队列' },
  anyQueue: { en: 'Any queue', zh: '全部队列' },
  kind: { en: 'Kind', zh: '类型' },
  anyKind: { en: 'any kind', zh: '全部类型' },
  search: { en: 'Search', zh: '搜索' },
  searchHint: {
    en: 'payload.order.id:42 error:relay "two words"',
    zh: 'payload.order.id:42 error:relay "两个 词"',
  },
  howToSearch: { en: 'How to search', zh: '搜索语法' },
  clear: { en: 'Clear filters', zh: '清除筛选' },

  id: { en: 'Id', zh: 'ID' },
  attempt: { en: 'Attempt', zh: '尝试' },
  attemptOf: { en: '{attempt} of {max}', zh: '{attempt}/{max}' },
  when: { en: 'When', zh: '时间' },
  due: { en: 'due', zh: '到期' },
  added: { en: 'added', zh: '添加' },
  started: { en: 'started', zh: '开始' },
  ended: { en: 'ended', zh: '结束' },
  about: { en: 'Error or tags', zh: '错误或标签' },
  shown: {
    en: { one: '{count} job on this page', other: '{count} jobs on this page' },
    zh: '本页 {count} 个任务',
  },
  scanned: {
    en: '{scanned} jobs were looked at, {found} found',
    zh: '已检查 {scanned} 个任务，找到 {found} 个',
  },
  looking: {
    en: 'Looking further: {scanned} jobs so far, {found} found',
    zh: '正在继续查找：已检查 {scanned} 个任务，找到 {found} 个',
  },
  lookOn: { en: 'Look further', zh: '继续查找' },
  stopLooking: { en: 'Stop looking', zh: '停止查找' },

  none: { en: 'No jobs here', zh: '没有任务' },
  noneSoFar: { en: 'None so far', zh: '暂未找到' },
  noneAtAll: {
    en: 'Nothing was added in this namespace yet. Add a job, or choose another namespace.',
    zh: '此命名空间还没有任务。请添加任务，或切换命名空间。',
  },
  noneMatch: {
    en: 'Nothing matches these filters. Loosen one of them, or clear all.',
    zh: '没有符合筛选条件的任务。请放宽或清除筛选。',
  },
  noneYet: {
    en: 'Nothing matches among the {scanned} newest jobs.',
    zh: '最新的 {scanned} 个任务中没有匹配项。',
  },

  selected: { en: { one: '{count} selected', other: '{count} selected' }, zh: '已选 {count} 个' },
  retry: { en: 'Retry', zh: '重试' },
  cancel: { en: 'Cancel jobs', zh: '取消任务' },
  delete: { en: 'Delete', zh: '删除' },
  everything: { en: 'Everything that matches', zh: '所有匹配项' },
  retrySome: { en: { one: 'Retry {count} job?', other: 'Retry {count} jobs?' }, zh: '重试 {count} 个任务？' },
  cancelSome: {
    en: { one: 'Cancel {count} job?', other: 'Cancel {count} jobs?' },
    zh: '取消 {count} 个任务？',
  },
  deleteSome: {
    en: { one: 'Delete {count} job?', other: 'Delete {count} jobs?' },
    zh: '删除 {count} 个任务？',
  },
  retryMeans: {
    en: 'The chosen jobs run again from their first attempt.',
    zh: '所选任务将从第一次尝试重新运行。',
  },
  cancelMeans: {
    en: 'Jobs that have not started end now. Workers of running jobs are asked to stop.',
    zh: '等待中的任务立即结束；正在运行的任务会被请求停止。',
  },
  deleteMeans: {
    en: 'Jobs, results and logs are deleted. This cannot be undone.',
    zh: '任务、结果和日志将被删除，无法恢复。',
  },
  counting: {
    en: 'Counting the jobs that match… {scanned} looked at so far',
    zh: '正在统计匹配项…已检查 {scanned} 个',
  },
  byState: { en: 'Jobs by state', zh: '按状态统计' },
  leftAlone: { en: 'not changed', zh: '不受影响' },
  runsAgain: {
    en: 'These jobs completed. They run again, with all their effects.',
    zh: '这些任务已完成，重试会再次执行并再次产生效果。',
  },
  skipsDependencies: {
    en: 'They run at once, before the jobs they wait for. Jobs with a lock still wait for it.',
    zh: '这些任务会立即运行，不再等待其依赖。带锁的任务仍需等待锁。',
  },
  chooseState: { en: 'Choose at least one state.', zh: '请至少选择一种状态。' },
  noneFit: { en: 'None of these jobs is in a state that allows this.', zh: '没有处于可操作状态的任务。' },
  everyJob: {
    en: 'No filter is set: this covers all queues and kinds of the namespace.',
    zh: '未设置筛选：将作用于此命名空间的所有队列和类型。',
  },
  meant: { en: 'Which ones: {search}', zh: '范围：{search}' },
  doneSome: { en: { one: '{count} job: done', other: '{count} jobs: done' }, zh: '{count} 个任务：已完成' },
  doneBut: {
    en: '{count} done, {failed} could not be: {why}',
    zh: '{count} 个已完成，{failed} 个失败：{why}',
  },
  begun: {
    en: 'Begun. It goes on by itself, also when you leave this page.',
    zh: '已开始。即使离开本页也会继续。',
  },

  operations: { en: 'Bulk operations', zh: '批量操作' },
  retryOperation: { en: 'Retry', zh: '重试' },
  cancelOperation: { en: 'Cancel', zh: '取消' },
  deleteOperation: { en: 'Delete', zh: '删除' },
  progress: { en: '{done} done, {skipped} skipped', zh: '完成 {done}，跳过 {skipped}' },
  stop: { en: 'Stop', zh: '停止' },
  stopped: { en: 'Stopped; what was done stays done.', zh: '已停止；已完成的部分保留。' },

  helpLead: {
    en: 'All terms must hold; a minus before one turns it round. Quotes go around spaces and signs.',
    zh: '所有条件须同时满足；前面加减号表示取反。含空格或符号的值请加引号。',
  },
  helpWords: { en: 'in payload, kind, id or error', zh: '出现在内容、类型、ID 或错误中' },
  helpExact: {
    en: 'exactly this kind; also queue, id, tag, key',
    zh: '类型完全一致；queue、id、tag、key 同理',
  },
  helpPrefix: { en: 'begins so', zh: '以此开头' },
  helpPayload: { en: 'this value at this place of the payload', zh: '内容中该位置的值' },
  helpTime: { en: 'by time: a date, an instant, or a span from now', zh: '按时间：日期、时刻或相对时长' },
  helpAttempt: { en: 'tried so often', zh: '按尝试次数' },
  helpNot: { en: 'not so', zh: '取反' },
})
